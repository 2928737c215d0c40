"""``TableEncoding``: turns the columns of a table into numbers.

A column of numbers stays as it is; a column of categories becomes one input of 0 and 1 per category.
"""

import dataclasses
import re
import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError, require

Missing = Literal["refuse", "mean", "drop"]
Text = Literal["one-hot", "drop", "refuse"]
Table = dict[str, NumpyArray]
"""Columns by name, all of one length."""
MISSING_RULES = ("refuse", "mean", "drop")
TEXT_RULES = ("one-hot", "drop", "refuse")
MAX_CATEGORIES = 20
"""A text column with more distinct values is not one-hot encoded: it is more likely a name or a
note."""
MISSING_MARKERS = frozenset({
    "", "?", "-", ".", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "nan", "NaN", "-nan", "-NaN", "NaT",
    "null", "NULL", "None",
})  # fmt: skip
"""Texts that stand for a missing value: those of pandas, and a question mark, a dash and a point."""
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\b")


class Column(NamedTuple):
    """A column of a table and the inputs that it becomes."""

    name: str
    categories: tuple[str, ...] = ()
    """Each category becomes an input of 0 and 1; empty for a column of numbers."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(f"{self.name}={c}" for c in self.categories) or (self.name,)


@dataclasses.dataclass(frozen=True)
class TableEncoding:
    """Turns the columns of a table into numbers.

    Args:
        columns: The columns that are used, in the order of their inputs.
        missing: What a gap is: an error ("refuse" and "drop"), or a value to fill in ("mean").
    """

    columns: tuple[Column, ...]
    missing: Missing = "refuse"

    @classmethod
    def fit(
        cls, table: Table, categorical: Sequence[str] = (), text: Text = "one-hot",
        missing: Missing = "refuse",
    ) -> "TableEncoding":  # fmt: skip
        """Choose which columns hold numbers and which hold categories.

        Args:
            table: The columns besides party and target, with the rows of all parties.
            categorical: Columns that hold categories although they are numbers, such as codes.
            text: What to do with columns of texts: "one-hot" makes one input per value, "drop" leaves
                the columns out, "refuse" rejects them.
            missing: See ``TableEncoding``.

        Raises:
            SettingError: A column holds dates, or too many different texts to be categories.
        """
        require(text in TEXT_RULES, "text", repr(text), f"one of: {', '.join(TEXT_RULES)}")
        rules = ", ".join(MISSING_RULES)
        require(missing in MISSING_RULES, "missing", repr(missing), f"one of: {rules}")
        for name in categorical:
            known = ", ".join(table)
            require(name in table, "categorical", repr(name), f"names of input columns: {known}")
        columns = []
        for name, column in table.items():
            _require_readable(name, column)
            is_text = not _holds_numbers(column)
            if is_text and name not in categorical:
                _require_no_dates(name, column)
                _require_no_damaged_numbers(name, column)
                if text == "drop":
                    continue
                first = next(
                    v for v in column.tolist() if not is_missing_value(v) and not is_number(v)
                )
                require(
                    text == "one-hot", f"column {name!r}", repr(first), "numbers",
                    'Set text to "one-hot" for one input per value, or to "drop" to leave text '
                    "columns out (in the shell: --set text=drop).",
                )  # fmt: skip
            if is_text or name in categorical:
                columns.append(Column(name, _categories(name, column)))
            else:
                columns.append(Column(name))
        require(
            bool(columns), "the table", "no column that can be an input", "a table with inputs",
            'Columns of texts become inputs with text set to "one-hot".',
        )  # fmt: skip
        return cls(tuple(columns), missing)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(name for column in self.columns for name in column.inputs)

    @property
    def are_numbers(self) -> NumpyArray:
        """(features,): True for inputs that are numbers, False for those of categories."""
        return np.array([not c.categories for c in self.columns for _ in c.inputs])

    def encode(self, table: Table) -> NumpyArray:
        """Return the inputs (n, features), with NaN for a missing number.

        Raises:
            SettingError: A column is absent, or has a value that cannot be an input.
        """
        absent = [column.name for column in self.columns if column.name not in table]
        require(not absent, "columns", f"none called {', '.join(absent)}", "those of the training")
        parts = [self._encode_column(column, table[column.name]) for column in self.columns]
        return np.concatenate(parts, axis=1)

    def _encode_column(self, column: Column, cells: NumpyArray) -> NumpyArray:
        gaps = missing_mask(cells)
        self._require_no_gaps(column.name, gaps)
        if not column.categories:
            return self._encode_numbers(column.name, cells, gaps)[:, None]
        values = category_texts(cells)
        one_hot = np.array([values == category for category in column.categories]).T
        unknown = ~(one_hot.any(1) | gaps)
        if unknown.any():
            message = (
                f"column {column.name!r} must be one of {', '.join(column.categories)}, got "
                f"{values[unknown][0]!r}, which no party had in the training."
            )
            if self.missing != "mean":
                raise SettingError(message)
            warnings.warn(
                f"{message} {int(unknown.sum())} such rows count as missing there.", stacklevel=2
            )
        return one_hot.astype(float)

    def _encode_numbers(self, name: str, cells: NumpyArray, gaps: NumpyArray) -> NumpyArray:
        values = cells.tolist()
        wrong = [v for v, gap in zip(values, gaps, strict=True) if not gap and not is_number(v)]
        require(not wrong, f"column {name!r}", repr(wrong[0]) if wrong else "", "numbers")
        numbers = np.array([np.nan if g else float(v) for v, g in zip(values, gaps, strict=True)])
        self._require_no_gaps(name, ~np.isfinite(numbers))
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def _require_no_gaps(self, name: str, gaps: NumpyArray) -> None:
        require(
            self.missing == "mean" or not gaps.any(), f"column {name!r}",
            f"{int(gaps.sum())} rows without a value", "present in every row",
            'Set missing to "mean" when you train to fill gaps with the mean of the training samples, '
            'or to "drop" to train without such rows (in the shell: --set missing=mean).',
        )  # fmt: skip


def missing_mask(column: NumpyArray) -> NumpyArray:
    """Return a mask of the missing cells: None, NaN, NaT, pandas' NA and ``MISSING_MARKERS``."""
    if column.dtype.kind in "biu":
        return np.zeros(len(column), dtype=bool)
    return np.array([is_missing_value(value) for value in column.tolist()], dtype=bool)


def is_missing_value(value: Any) -> bool:
    """Return whether a cell stands for a missing value."""
    if isinstance(value, str):
        return value.strip() in MISSING_MARKERS
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def is_number(value: Any) -> bool:
    """Return whether a cell is a number, or a text that spells one."""
    if isinstance(value, str) and "_" in value:
        return False  # Python would read 1_2 as 12.
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def texts(column: NumpyArray) -> NumpyArray:
    """Return the values as texts without spaces around them, in an object array.

    NumPy's text arrays have one width for all.
    """
    return np.array([str(value).strip() for value in column.tolist()], dtype=object)


def category_texts(column: NumpyArray) -> NumpyArray:
    """Return the values of a column of categories as texts; whole numbers have no decimal point."""

    def text(value: Any) -> str:
        if is_number(value) and not isinstance(value, bool) and float(value).is_integer():
            return str(int(float(value)))
        return str(value).strip()

    return np.array([text(value) for value in column.tolist()], dtype=object)


def _holds_numbers(column: NumpyArray) -> bool:
    gaps = missing_mask(column)
    return all(is_number(v) for v, gap in zip(column.tolist(), gaps, strict=True) if not gap)


def _categories(name: str, column: NumpyArray) -> tuple[str, ...]:
    """Return the distinct values of a column, in their order as numbers or as texts."""
    found = set(category_texts(column)[~missing_mask(column)].tolist())
    require(
        len(found) <= MAX_CATEGORIES, f"column {name!r}", f"{len(found):,} different texts",
        f"numbers, or at most {MAX_CATEGORIES} categories",
        f"If it is an identifier or a note, leave it out (in the shell: --set drop={name}).",
    )  # fmt: skip
    if all(is_number(value) for value in found):
        return tuple(sorted(found, key=float))
    return tuple(sorted(found))


def _require_readable(name: str, column: NumpyArray) -> None:
    is_date = column.dtype.kind in "mM"
    if is_date:
        _raise_date(name, column[0])
    require(column.dtype.kind in "biufOUT", f"column {name!r}", column.dtype, "numbers or texts")


def _require_no_dates(name: str, column: NumpyArray) -> None:
    values = [v for v in column.tolist() if not is_missing_value(v)]
    dates = [
        v for v in values if hasattr(v, "year") or (isinstance(v, str) and _DATE.match(v.strip()))
    ]
    if dates and len(dates) == len(values):
        _raise_date(name, dates[0])


def _require_no_damaged_numbers(name: str, column: NumpyArray) -> None:
    """Require that not most of the values of a column of texts are numbers."""
    values = [v for v in column.tolist() if not is_missing_value(v)]
    not_numbers = [v for v in values if not is_number(v)]
    require(
        2 * len(not_numbers) > len(values), f"column {name!r}",
        f"{len(not_numbers):,} texts such as {str(not_numbers[0])[:30]!r} among numbers", "numbers",
        "Leave these cells empty if the values are missing. If the column holds categories, say so (in "
        f"the shell: --set categorical={name}).",
    )  # fmt: skip


def _raise_date(name: str, example: Any) -> None:
    raise SettingError(
        f"column {name!r} must be numbers or categories, got dates such as {str(example)[:30]}. "
        "Replace it with a number, such as an age or the days since another date, or leave it out "
        f"(in the shell: --set drop={name})."
    )
