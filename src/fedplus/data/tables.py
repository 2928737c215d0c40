"""Columns of numbers made into a federation: what data frames, CSV and Parquet files share."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedplus._check import require
from fedplus.data.federation import Federation, Missing
from fedplus.data.holdout import Splitting, divided
from fedplus.data.info import Info
from fedplus.data.partition import by_column
from fedplus.data.split import Host, Split

Table = dict[str, Host]
"""Columns by name, all of one length."""


def federation_of_frame(
    frame: Any, party: str, target: str, regress: bool | None, missing: Missing,
    split: Splitting,
) -> Federation:  # fmt: skip
    """See ``Federation.from_frame``."""
    known = [str(column) for column in getattr(frame, "columns", ())]
    for role, name in (("party", party), ("target", target)):
        require(name in known, role, repr(name), f"a column of the frame: {', '.join(known)}")
    table = {name: np.asarray(frame[name].to_numpy()) for name in known}
    whose = table.pop(party)
    rows = by_column(_texts(whose))(whose, np.random.default_rng(0))
    return federation_of_table(table, rows, target, regress, missing, split)


def federation_of_table(
    table: Table, rows: Mapping[str, Host], target: str, regress: bool | None,
    missing: Missing, split: Splitting,
) -> Federation:  # fmt: skip
    """Columns to inputs and labels, and each party's rows to its samples."""
    y, classes = labels(table[target], target, regress)
    inputs = {name: column for name, column in table.items() if name != target}
    require(bool(inputs), "the table", f"only {target!r}", f"columns beside {target!r} as inputs")
    x = np.stack([_input(name, column, missing) for name, column in inputs.items()], axis=1)
    made = federation_with_gaps(x, y, rows, split)
    return made._replace(info=Info(classes=classes))


def federation_with_gaps(
    x: Host, y: Host, rows: Mapping[str, Host], split: Splitting
) -> Federation:
    """Gaps (NaN) become the mean of the training samples' numbers in that column."""
    train, test, validation = divided(y, rows, split)
    learned = x[np.concatenate(list(train.values()))]
    there = np.isfinite(learned)
    mean = np.where(there, learned, 0).sum(0) / np.maximum(there.sum(0), 1)
    filled = np.where(np.isnan(x), mean, x).astype(np.float32)

    def taken(part: dict[str, Host]) -> Split:
        return Split.taken(filled, y, list(part.values()))

    held = None if validation is None else taken(validation)
    name = split.get("name", "federation")
    return Federation(name, taken(train), taken(test), held, tuple(map(str, train)))


def labels(column: Host, name: str, regress: bool | None) -> tuple[Host, tuple[str, ...]]:
    """(numbers, ()) to regress on, or (class numbers, what they mean)."""
    if column.dtype.kind in "OUST":
        column = _texts(column)
        gaps = int(np.isin(column, ("", "None", "nan", "<NA>")).sum())
        require(gaps == 0, f"target {name!r}", f"{gaps} rows without one", "there in every row")
        require(not regress, f"target {name!r}", f"texts such as {column[0]!r}", "numbers")
        meaning, codes = np.unique(column, return_inverse=True)
        return codes.astype(np.int32), tuple(meaning.tolist())
    require(column.dtype.kind in "biuf", f"target {name!r}", column.dtype, "numbers or texts")
    numbers = column.astype(float)
    gaps = int((~np.isfinite(numbers)).sum())
    require(gaps == 0, f"target {name!r}", f"{gaps} rows without one", "there in every row")
    if bool((numbers != np.round(numbers)).any()) if regress is None else regress:
        return numbers.astype(np.float32), ()
    known, codes = np.unique(numbers, return_inverse=True)
    return codes.astype(np.int32), tuple(f"{number:g}" for number in known)


def _input(name: str, column: Host, missing: str) -> Host:
    require(missing in ("refuse", "mean"), "missing", repr(missing), "refuse or mean")
    try:
        numbers = np.array([np.nan if c is None else c for c in column.tolist()], dtype=float)
    except (TypeError, ValueError):
        odd = next(c for c in column.tolist() if not _is_number(c))
        require(
            False, f"column {name!r}", repr(odd), "numbers",
            "Drop the column, or make numbers of it (0 and 1 for each value it takes).",
        )  # fmt: skip
    gaps = int((~np.isfinite(numbers)).sum())
    require(
        gaps == 0 or missing == "mean", f"column {name!r}", f"{gaps} rows without a number",
        "a number in every row", 'Pass missing="mean" to fill gaps with the training mean.',
    )  # fmt: skip
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return value is None
    return True


def _texts(column: Host) -> Host:
    return np.array([str(value) for value in column.tolist()])
