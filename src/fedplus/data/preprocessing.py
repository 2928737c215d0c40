"""``Preprocessing``: how the rows of a table, or raw arrays, become the inputs of a model.

It is determined once, from the tables of all parties, and stored with a run, so that new rows
become inputs in the same way. ``TableSettings`` are the user's choices.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError
from fedplus.data.scaling import Scaling, Standardise
from fedplus.data.table_encoding import Column, Missing, TableEncoding, Text

Task = Literal["classification", "regression"]
ARRAYS = ("fill", "mean", "deviation")
"""The arrays of a ``Scaling``."""


class TableSettings(TypedDict, total=False):
    """Settings that say how the columns of a table become inputs and labels."""

    task: Task | None
    """"classification" or "regression". By default, texts and up to 20 distinct whole numbers are
    classes, and numbers with a fraction are predicted as numbers. It is required for more than 20
    distinct whole numbers."""
    drop: str | Sequence[str]
    """Columns to leave out, such as identifiers; several in one text are separated by commas."""
    categorical: str | Sequence[str]
    """Columns of numbers that are codes of categories. Like a text, each becomes one input per
    value."""
    text: Text
    """Rule for columns of texts: "one-hot", the default, makes one input of 0 and 1 per value;
    "drop" leaves them out; "refuse" rejects them."""
    missing: Missing
    """Rule for missing values: "refuse", the default, rejects them; "mean" replaces them
    with the mean of the training samples (in a column of categories, all its inputs are 0); "drop"
    leaves the rows out."""
    standardise: Standardise | bool
    """Columns of numbers become (x − mean)/deviation, with the statistics of the training samples
    of all parties ("pooled", the default) or of each party ("party"). "no" or False leaves them as
    they are."""


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """How raw columns, or raw arrays, become the inputs of the models of a federation.

    Args:
        encoding: How columns become numbers; None for arrays.
        scaling: How the numbers are filled and standardised; None if they are not.
        target: Name of the column that is predicted.
        dropped: Columns that are left out.
        summary: One line that says what was done.
    """

    encoding: TableEncoding | None = None
    scaling: Scaling | None = None
    target: str = ""
    dropped: tuple[str, ...] = ()
    summary: str = ""

    @property
    def is_standardised(self) -> bool:
        """Whether inputs are standardised, over all parties or by each party."""
        return self.scaling is not None and self.scaling.standardises

    @property
    def is_standardised_over_parties(self) -> bool:
        """Whether inputs are standardised with one mean and one deviation for all parties."""
        return self.is_standardised and self.scaling is not None and not self.scaling.parties

    def apply(self, data: Any, party: str | None = None) -> NumpyArray:
        """Return the inputs (n, ...) of a model.

        Args:
            data: A table (columns by name), or an array if the federation was made of arrays.
            party: The party whose rows they are, which matters if each has its own scaling.
        """
        x = data if self.encoding is None else self.encoding.encode(data)
        return np.asarray(x if self.scaling is None else self.scaling.of_party(party).apply(x))

    def with_scaling(self, scaling: Scaling) -> "Preprocessing":
        """Return the preprocessing with another scaling."""
        return dataclasses.replace(self, scaling=scaling)

    def to_plain(self) -> dict[str, Any]:
        """Return the preprocessing as dictionaries, lists, texts and numbers, for JSON."""
        encoding, scaling = self.encoding, self.scaling
        return {
            "encoding": None if encoding is None else {
                "columns": [[c.name, list(c.categories)] for c in encoding.columns],
                "missing": encoding.missing,
            },
            "scaling": None if scaling is None else {
                name: getattr(scaling, name).tolist() for name in ARRAYS
            } | {"parties": list(scaling.parties)},
            "target": self.target,
            "dropped": list(self.dropped),
            "summary": self.summary,
        }  # fmt: skip

    @classmethod
    def from_plain(cls, content: Any) -> "Preprocessing":
        """Read what ``to_plain`` returned.

        Raises:
            SettingError: The content is not a preprocessing.
        """
        try:
            encoding = scaling = None
            if content["encoding"] is not None:
                columns = tuple(
                    Column(str(name), tuple(map(str, categories)))
                    for name, categories in content["encoding"]["columns"]
                )
                encoding = TableEncoding(columns, content["encoding"]["missing"])
            if content["scaling"] is not None:
                fill, mean, deviation = (
                    np.array(content["scaling"][name], float) for name in ARRAYS
                )
                parties = tuple(map(str, content["scaling"]["parties"]))
                scaling = Scaling(fill, mean, deviation, parties)
            dropped = tuple(map(str, content["dropped"]))
            return cls(encoding, scaling, str(content["target"]), dropped, str(content["summary"]))
        except (ValueError, LookupError, TypeError) as error:
            raise SettingError(f"the preprocessing cannot be read: {error}.") from error
