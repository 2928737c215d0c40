"""``Metadata``: the classes, outliers, source and licence of a federation."""

import dataclasses

from fedplus._types import NumpyArray
from fedplus.data.column_summary import ColumnSummary
from fedplus.data.preprocessing import Preprocessing


@dataclasses.dataclass(frozen=True)
class Metadata:
    """Facts about a federation for its card, its pictures and the choice of the model."""

    classes: tuple[str, ...] = ()
    """Names of the classes 0, 1, ...; empty if the labels are numbers to predict."""
    outliers: tuple[str, ...] = ()
    """Names of the parties whose data were made different from the others' on purpose."""
    image_shape: tuple[int, ...] = ()
    """Shape of an input as an image; empty if inputs are not images."""
    vocabulary: tuple[str, ...] = ()
    """Words of the tokens 0, 1, ...; empty if inputs are not tokens."""
    embedding: NumpyArray | None = dataclasses.field(default=None, repr=False, compare=False)
    """Frozen vectors (V, F), one per token, for ``models.lstm(embedding=...)``."""
    preprocessing: Preprocessing | None = dataclasses.field(default=None, compare=False)
    """How raw rows become inputs; None if that is not known, as for federations from arrays."""
    columns: tuple[ColumnSummary, ...] = ()
    """The columns of the parties' tables; empty if the inputs are no columns of tables."""
    notes: tuple[str, ...] = ()
    """Notes that a user should read before training, of one or two sentences each."""
    summary: str = ""
    """One line that describes the federation."""
    source: str = ""
    """Who published the data."""
    licence: str = ""
    """Licence of the data."""
    differences: str = ""
    """How the federation differs from the paper's of that name, or that the paper has none."""
    settings: str = ""
    """Settings with which it was loaded."""
    stand_in_for: str = ""
    """Name of the data set that this one replaces; reports must say so next to its results."""
