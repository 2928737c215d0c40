"""Columns of numbers made into a federation: what data frames, CSV and Parquet files share."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedplus._types import Host
from fedplus.check import SettingError, require
from fedplus.data.federation import Federation, Missing, Task, gather_rows
from fedplus.data.holdout import Splitting, require_splitting, split_rows
from fedplus.data.metadata import Metadata
from fedplus.data.partition import by_column

MOST_CLASSES = 20
"""Different whole numbers of a target beyond which one has to say whether they are classes."""
TASKS = ("classification", "regression")
Table = dict[str, Host]
"""Columns by name, all of one length."""
GAPS = ("", "?", "NA", "nan", "NaN", "None", "<NA>")
"""Texts that stand for nothing."""


class UnclearTaskError(SettingError):
    """A target could be an amount or a class, and nobody said which."""

    def __init__(self, target: str, different: int) -> None:
        self.target, self.different = target, different
        super().__init__(
            f'task must be "classification" or "regression" for target {target!r}, got none, and '
            f'{self.reason}. Pass task="regression" if they are amounts such as an age or a price, '
            'task="classification" if each is a class.'
        )

    @property
    def reason(self) -> str:
        """Why it is not clear."""
        return f"it has {self.different:,} different whole numbers (more than {MOST_CLASSES})"


def federation_from_frame(
    frame: Any, party: str, target: str, task: Task | None, missing: Missing,
    split: Splitting,
) -> Federation:  # fmt: skip
    """See ``Federation.from_frame``."""
    require(
        hasattr(frame, "__len__") and hasattr(frame, "columns"), "frame", type(frame).__name__,
        "a pandas or polars data frame", "Of a LazyFrame take .collect().",
    )  # fmt: skip
    known = list(frame.columns)
    named = all(isinstance(name, str) for name in known) and len(set(known)) == len(known)
    require(named, "columns of the frame", known, "texts that all differ")
    for role, name in (("party", party), ("target", target)):
        require(name in known, role, repr(name), f"a column of the frame: {', '.join(known)}")
    require(party != target, "target", repr(target), "another column than party")
    table = {name: np.asarray(frame[name].to_numpy()) for name in known}
    whose = table.pop(party)
    gaps = int(_missing(whose).sum())
    require(gaps == 0, f"party {party!r}", f"{gaps} rows without one", "there in every row")
    rows = by_column(_texts(whose))(whose, np.random.default_rng(0))
    return federation_from_columns(table, rows, target, task, missing, split)


def federation_from_columns(
    table: Table, rows: Mapping[str, Host], target: str, task: Task | None,
    missing: Missing, split: Splitting,
) -> Federation:  # fmt: skip
    """Columns to inputs and labels, and each party's rows to its samples."""
    require_splitting(split)
    y, classes = encode_labels(table[target], target, task)
    inputs = {name: column for name, column in table.items() if name != target}
    require(bool(inputs), "the table", f"only {target!r}", f"columns beside {target!r} as inputs")
    x = np.stack([_input(name, column, missing) for name, column in inputs.items()], axis=1)
    made = federation_with_missing_values(x, y, rows, split)
    return made._replace(info=Metadata(classes=classes))


def federation_with_missing_values(
    x: Host, y: Host, rows: Mapping[str, Host], split: Splitting
) -> Federation:
    """Gaps (NaN) become the mean of the training samples' numbers in that column."""
    parts = split_rows(y, rows, split)
    learned = x[np.concatenate(list(parts[0].values()))]
    there = np.isfinite(learned)
    mean = np.where(there, learned, 0).sum(0) / np.maximum(there.sum(0), 1)
    filled = np.where(np.isnan(x), mean, x).astype(np.float32)
    return gather_rows(filled, y, parts, split)


def encode_labels(column: Host, name: str, task: Task | None) -> tuple[Host, tuple[str, ...]]:
    """Turn a target column into numbers or into classes.

    Args:
        column: Its values, numbers or texts.
        name: Its name, for messages.
        task: "classification" or "regression". None: texts and up to ``MOST_CLASSES`` different
            whole numbers are classes, numbers with a fraction are regressed on.

    Returns:
        (numbers, ()) for regression, (class numbers, names of the classes) for classification.

    Raises:
        UnclearTaskError: ``task`` is None, and there are more different whole numbers than that.
        SettingError: The column has gaps, or values that do not fit the task.
    """
    require(task in (None, *TASKS), "task", repr(task), " or ".join(TASKS))
    gaps = int(_missing(column).sum())
    require(gaps == 0, f"target {name!r}", f"{gaps} rows without one", "there in every row")
    if column.dtype.kind in "OUST" and not all(_is_number(value) for value in column.tolist()):
        texts = _texts(column)
        require(task != "regression", f"target {name!r}", f"texts such as {texts[0]!r}", "numbers")
        meaning, codes = np.unique(texts, return_inverse=True)
        return codes.astype(np.int32), tuple(meaning.tolist())
    require(column.dtype.kind in "biufOUT", f"target {name!r}", column.dtype, "numbers or texts")
    numbers = np.array([float(value) for value in column.tolist()])
    require(bool(np.isfinite(numbers).all()), f"target {name!r}", "an infinite number", "finite")
    whole = bool((numbers == np.round(numbers)).all())
    if task == "regression" or (task is None and not whole):
        return numbers.astype(np.float32), ()
    known, codes = np.unique(numbers, return_inverse=True)
    if task is None and len(known) > MOST_CLASSES:
        raise UnclearTaskError(name, len(known))
    return codes.astype(np.int32), tuple(str(int(k)) if whole else f"{k!r}" for k in known.tolist())


def _input(name: str, column: Host, missing: str) -> Host:
    require(missing in ("refuse", "mean"), "missing", repr(missing), "refuse or mean")
    gone = _missing(column)
    odd = [v for v, gap in zip(column.tolist(), gone, strict=True) if not gap and not _is_number(v)]
    kind_ok = column.dtype.kind in "biufOUT" and not odd
    require(
        kind_ok, f"column {name!r}", repr(odd[0]) if odd else column.dtype, "numbers",
        "Drop the column, or make numbers of it (0 and 1 for each value it takes).",
    )  # fmt: skip
    numbers = np.array(
        [np.nan if gap else float(v) for v, gap in zip(column.tolist(), gone, strict=True)]
    )
    gaps = int((~np.isfinite(numbers)).sum())
    require(
        gaps == 0 or missing == "mean", f"column {name!r}", f"{gaps} rows without a number",
        "a number in every row", 'Pass missing="mean" to fill gaps with the training mean.',
    )  # fmt: skip
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _missing(column: Host) -> Host:
    """Which cells hold nothing: None, NaN, NaT, pandas' NA, or a text that says so."""
    if column.dtype.kind in "biu":
        return np.zeros(len(column), dtype=bool)
    return np.array([_is_gap(value) for value in column.tolist()], dtype=bool)


def _is_gap(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip() in GAPS
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _texts(column: Host) -> Host:
    """Return texts as objects: NumPy's own texts all take the width of the longest."""
    return np.array([str(value) for value in column.tolist()], dtype=object)
