"""Turns named columns into a federation: the shared part of data frames, CSV and Parquet files.

``federation_from_columns`` turns the target column into labels and all other columns into inputs, and
gives each party its rows. ``folders.py`` reads the files; ``federation_from_frame`` takes data frames.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError, require
from fedplus.data.federation import Federation, Missing, Task, gather_rows
from fedplus.data.holdout import Splitting, require_splitting, split_rows
from fedplus.data.metadata import Metadata
from fedplus.data.partition import by_column

MAX_INFERRED_CLASSES = 20
"""A target with more distinct whole numbers is taken as classes only if the user sets ``task``."""
TASKS = ("classification", "regression")
Table = dict[str, NumpyArray]
"""Columns by name, all of one length."""
MISSING_MARKERS = ("", "?", "NA", "nan", "NaN", "None", "<NA>")
"""Texts that stand for a missing value."""


class UnclearTaskError(SettingError):
    """The target has many distinct whole numbers, and ``task`` does not say what they are.

    Args:
        target: Name of the target column.
        distinct: Number of its distinct values.
    """

    def __init__(self, target: str, distinct: int) -> None:
        self.target, self.distinct = target, distinct
        super().__init__(
            f'task must be "classification" or "regression" for target {target!r}, got none, and '
            f'{self.reason}. Set task to "regression" (in the shell: --set task=regression) if they '
            'are amounts such as an age or a price, or to "classification" if each is a class.'
        )

    @property
    def reason(self) -> str:
        """Why the task is unclear."""
        return (
            f"it has {self.distinct:,} different whole numbers (more than {MAX_INFERRED_CLASSES})"
        )


def federation_from_frame(
    frame: Any, party: str, target: str, task: Task | None, missing: Missing, split: Splitting
) -> Federation:
    """Build a federation from a pandas or polars data frame; see ``Federation.from_frame``."""
    require(
        hasattr(frame, "__len__") and hasattr(frame, "columns"), "frame", type(frame).__name__,
        "a pandas or polars data frame", "Call .collect() on a LazyFrame first.",
    )  # fmt: skip
    names = list(frame.columns)
    are_texts = all(isinstance(name, str) for name in names)
    are_valid = are_texts and len(set(names)) == len(names)
    require(are_valid, "columns of the frame", names, "distinct strings")
    for role, name in (("party", party), ("target", target)):
        require(name in names, role, repr(name), f"a column of the frame: {', '.join(names)}")
    require(party != target, "target", repr(target), "a column other than party")
    table = {name: np.asarray(frame[name].to_numpy()) for name in names}
    party_of_row = table.pop(party)
    _require_complete(party_of_row, f"party {party!r}")
    rows = by_column(_texts(party_of_row))(party_of_row, np.random.default_rng(0))
    return federation_from_columns(table, rows, target, task, missing, split)


def federation_from_columns(
    table: Table,
    rows: Mapping[str, NumpyArray],
    target: str,
    task: Task | None,
    missing: Missing,
    split: Splitting,
) -> Federation:
    """Build a federation from named columns.

    Args:
        table: All columns, including the target.
        rows: Each party's row numbers, by its name.
        target: Name of the column to predict.
        task: See ``encode_labels``.
        missing: "refuse" rejects a missing input, "mean" replaces it with the training mean.
        split: See ``Splitting``.
    """
    require_splitting(split)
    y, classes = encode_labels(table[target], target, task)
    inputs = {name: column for name, column in table.items() if name != target}
    require(bool(inputs), "the table", f"only {target!r}", f"columns besides {target!r} as inputs")
    x = np.stack([_input_numbers(name, column, missing) for name, column in inputs.items()], axis=1)
    federation = federation_with_imputed_means(x, y, rows, split)
    return federation._replace(info=Metadata(classes=classes))


def federation_with_imputed_means(
    x: NumpyArray, y: NumpyArray, rows: Mapping[str, NumpyArray], split: Splitting
) -> Federation:
    """Build a federation in which missing inputs are the mean of that column's training samples.

    Args:
        x: Inputs (n, features), NaN where a value is missing.
        y: Labels (n,).
        rows: Each party's row numbers, by its name.
        split: See ``Splitting``.
    """
    parts = split_rows(y, rows, split)
    training = x[np.concatenate(list(parts[0].values()))]
    is_known = np.isfinite(training)
    mean = np.where(is_known, training, 0).sum(0) / np.maximum(is_known.sum(0), 1)
    imputed = np.where(np.isnan(x), mean, x).astype(np.float32)
    return gather_rows(imputed, y, parts, split)


def encode_labels(
    column: NumpyArray, name: str, task: Task | None
) -> tuple[NumpyArray, tuple[str, ...]]:
    """Turn a target column into numbers to predict or into class numbers.

    Args:
        column: The values, numbers or texts.
        name: The column's name, for messages.
        task: "classification" or "regression". With None, texts and up to ``MAX_INFERRED_CLASSES``
            distinct whole numbers are classes, and numbers with a fraction are predicted as numbers.

    Returns:
        (numbers, ()) for regression, (class numbers, names of the classes) for classification.

    Raises:
        UnclearTaskError: ``task`` is None, and there are more distinct whole numbers than that.
        SettingError: The column has missing values, or values that do not fit the task.
    """
    require(task in (None, *TASKS), "task", repr(task), " or ".join(TASKS))
    label = f"target {name!r}"
    _require_complete(column, label)
    if column.dtype.kind in "OUST" and not all(_is_number(value) for value in column.tolist()):
        texts = _texts(column)
        require(task != "regression", label, f"texts such as {texts[0]!r}", "numbers")
        classes, codes = np.unique(texts, return_inverse=True)
        return codes.astype(np.int32), tuple(classes.tolist())
    require(column.dtype.kind in "biufOUT", label, column.dtype, "numbers or texts")
    numbers = np.array([float(value) for value in column.tolist()])
    require(bool(np.isfinite(numbers).all()), label, "an infinite number", "finite")
    is_whole = bool((numbers == np.round(numbers)).all())
    if task == "regression" or (task is None and not is_whole):
        return numbers.astype(np.float32), ()
    values, codes = np.unique(numbers, return_inverse=True)
    if task is None and len(values) > MAX_INFERRED_CLASSES:
        raise UnclearTaskError(name, len(values))
    names = tuple(str(int(value)) if is_whole else f"{value!r}" for value in values.tolist())
    return codes.astype(np.int32), names


def _input_numbers(name: str, column: NumpyArray, missing: str) -> NumpyArray:
    """Return an input column as floats, with NaN for each missing value."""
    require(missing in ("refuse", "mean"), "missing", repr(missing), "refuse or mean")
    values, is_missing = column.tolist(), _is_missing(column)
    not_numbers = [
        value
        for value, gap in zip(values, is_missing, strict=True)
        if not gap and not _is_number(value)
    ]
    require(
        column.dtype.kind in "biufOUT" and not not_numbers, f"column {name!r}",
        repr(not_numbers[0]) if not_numbers else column.dtype, "numbers",
        "Drop the column, or replace it with one column of 0 and 1 for each of its values.",
    )  # fmt: skip
    numbers = np.array(
        [np.nan if gap else float(value) for value, gap in zip(values, is_missing, strict=True)]
    )
    gaps = int((~np.isfinite(numbers)).sum())
    require(
        gaps == 0 or missing == "mean", f"column {name!r}", f"{gaps} rows without a number",
        "a number in every row",
        'Set missing to "mean" (in the shell: --set missing=mean) to fill gaps with the training mean.',
    )  # fmt: skip
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _require_complete(column: NumpyArray, label: str) -> None:
    gaps = int(_is_missing(column).sum())
    require(gaps == 0, label, f"{gaps} rows without one", "present in every row")


def _is_missing(column: NumpyArray) -> NumpyArray:
    """Return a mask of the missing cells: None, NaN, NaT, pandas' NA and ``MISSING_MARKERS``."""
    if column.dtype.kind in "biu":
        return np.zeros(len(column), dtype=bool)
    return np.array([_is_missing_value(value) for value in column.tolist()], dtype=bool)


def _is_missing_value(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip() in MISSING_MARKERS
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _texts(column: NumpyArray) -> NumpyArray:
    """Return the values as texts in an object array: NumPy's text arrays have one width for all."""
    return np.array([str(value) for value in column.tolist()], dtype=object)
