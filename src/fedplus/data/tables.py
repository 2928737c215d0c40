"""Turns named columns into a federation: the shared part of data frames, CSV and Parquet files.

``federation_from_columns`` turns the target column into labels and all other columns into inputs
(``preprocessing.py``), and gives each party its rows. ``table_files.py`` and ``folders.py`` read files;
``federation_from_frame`` takes data frames.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError, require
from fedplus.data.column_summary import summarise_columns
from fedplus.data.federation import Federation, gather_rows
from fedplus.data.holdout import SplitRows, Splitting, require_splitting, split_rows
from fedplus.data.metadata import Metadata
from fedplus.data.partition import by_column
from fedplus.data.preprocessing import Preprocessing, TableSettings, Task
from fedplus.data.scaling import Moments, Scaling, Standardise
from fedplus.data.table_encoding import (
    Table,
    TableEncoding,
    category_texts,
    is_number,
    missing_mask,
    texts,
)

MAX_INFERRED_CLASSES = 20
"""A target with more distinct whole numbers is taken as classes only if the user sets ``task``."""
TASKS = ("classification", "regression")
MIN_IDENTIFIERS = 20
"""A column of so many rows with a different whole number in each is probably an identifier."""


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
    frame: Any, party: str, target: str, settings: TableSettings, split: Splitting
) -> Federation:
    """Build a federation from a pandas or polars data frame; see ``Federation.from_frame``."""
    require(
        hasattr(frame, "__len__") and hasattr(frame, "columns"), "frame", type(frame).__name__,
        "a pandas or polars data frame", "Call .collect() on a LazyFrame first.",
    )  # fmt: skip
    return federation_by_party_column(
        table_of_frame(frame), "the frame", party, target, settings, split
    )


def table_of_frame(frame: Any) -> Table:
    """Return the columns of a pandas or polars data frame by name."""
    names = list(frame.columns)
    are_texts = all(isinstance(name, str) for name in names)
    are_valid = are_texts and len(set(names)) == len(names)
    require(are_valid, "columns of the frame", names, "distinct strings")
    return {name: np.asarray(frame[name].to_numpy()) for name in names}


def federation_by_party_column(
    table: Table, where: str, party: str | None, target: str, settings: TableSettings,
    split: Splitting,
) -> Federation:  # fmt: skip
    """Build a federation from one table, in which a column says to which party each row belongs.

    Args:
        table: All columns, by name.
        where: The table, for messages.
        party: Name of the column with the parties' names.
        target: Name of the column to predict.
        settings: See ``TableSettings``.
        split: See ``Splitting``.
    """
    for role, name in (("party", party), ("target", target)):
        require(
            name in table, role, "none" if name is None else repr(name),
            f"a column of {where}: {', '.join(table)}", f"In the shell: --set {role}=COLUMN.",
        )  # fmt: skip
    require(party != target, "target", repr(target), "a column other than party")
    party_of_row = table[str(party)]
    _require_complete(party_of_row, f"party {party!r}")
    rows = by_column(category_texts(party_of_row))(party_of_row, np.random.default_rng(0))
    columns = {name: column for name, column in table.items() if name != party}
    return federation_from_columns(columns, rows, target, settings, split)


def federation_from_columns(
    table: Table, rows: Mapping[str, NumpyArray], target: str, settings: TableSettings,
    split: Splitting,
) -> Federation:  # fmt: skip
    """Build a federation from named columns.

    Args:
        table: All columns, including the target.
        rows: Each party's row numbers, by its name.
        target: Name of the column to predict.
        settings: See ``TableSettings``.
        split: See ``Splitting``.
    """
    require_splitting(split)
    dropped = _column_names(settings.get("drop", ()), table)
    for name in dropped:
        is_input = name in table and name != target
        known = ", ".join(other for other in table if other != target)
        require(is_input, "drop", repr(name), f"names of input columns: {known}")
    table = {name: column for name, column in table.items() if name not in dropped}
    inputs = {name: column for name, column in table.items() if name != target}
    require(bool(inputs), "the table", f"only {target!r}", f"columns besides {target!r} as inputs")
    categorical = _column_names(settings.get("categorical", ()), inputs)
    missing, text = settings.get("missing", "refuse"), settings.get("text", "one-hot")
    encoding = TableEncoding.fit(inputs, categorical, text, missing)
    used = [column.name for column in encoding.columns]
    samples = len(table[target])
    if missing == "drop":
        table, rows = _drop_incomplete_rows({name: table[name] for name in (*used, target)}, rows)
    left_out = (*dropped, *(name for name in inputs if name not in used))
    inputs = {name: table[name] for name in used}
    y, classes = encode_labels(table[target], target, settings.get("task"))
    parts = split_rows(y, rows, split)
    x = encoding.encode(inputs)
    how = standardise_rule(settings.get("standardise", True))
    scaled, scaling = _scale(x, parts, encoding.are_numbers, how)
    summary = _describe(encoding, how, int(np.isnan(x).sum()), samples - len(y), left_out)
    preprocessing = Preprocessing(encoding, scaling, target, left_out, summary)
    federation = gather_rows(scaled, y, parts, split)
    info = Metadata(
        classes=classes,
        preprocessing=preprocessing,
        columns=summarise_columns(encoding, inputs, x, _all_rows(parts)),
        notes=(*_identifier_notes(inputs, rows), *_spelling_notes(target, classes, encoding)),
    )
    return federation._replace(info=info)


def standardise_rule(value: Any) -> Standardise:
    """Return "pooled", "party" or "no" for a value of the setting ``standardise``.

    >>> standardise_rule(True), standardise_rule("party"), standardise_rule(False)
    ('pooled', 'party', 'no')
    """
    rules: dict[Any, Standardise] = {
        True: "pooled", False: "no", "pooled": "pooled", "party": "party", "no": "no",
    }  # fmt: skip
    is_known = isinstance(value, (bool, str)) and value in rules
    require(is_known, "standardise", repr(value), "pooled, party, or no (true or false)")
    return rules[value]


def _column_names(value: Any, table: Table) -> tuple[str, ...]:
    """Return the names in a list, or in one text with commas between them."""
    if isinstance(value, str):
        names = [value] if value in table else [name.strip() for name in value.split(",")]
        return tuple(name for name in names if name)
    return tuple(map(str, value))


def _drop_incomplete_rows(
    table: Table, rows: Mapping[str, NumpyArray]
) -> tuple[Table, dict[str, NumpyArray]]:
    """Return the table without rows that have a missing value, and each party's row numbers in it."""
    is_complete = ~np.any([missing_mask(column) for column in table.values()], axis=0)
    new_row = np.cumsum(is_complete) - 1
    kept = {name: new_row[numbers[is_complete[numbers]]] for name, numbers in rows.items()}
    return {name: column[is_complete] for name, column in table.items()}, kept


def _scale(
    x: NumpyArray, parts: SplitRows, are_numbers: NumpyArray, how: Standardise
) -> tuple[NumpyArray, Scaling]:
    """Return the scaled inputs, and the scaling, which the training samples determine."""
    training = parts[0]
    scaling = Scaling.fit(
        {name: Moments.of(x[rows]) for name, rows in training.items()}, are_numbers, how
    )
    scaled = np.empty(x.shape, np.float32)
    for name, rows in _all_rows(parts).items():
        scaled[rows] = scaling.of_party(name).apply(x[rows])
    return scaled, scaling


def _all_rows(parts: SplitRows) -> dict[str, NumpyArray]:
    """Return the row numbers of each party for training, testing and validation together."""
    return {
        name: np.concatenate([part[name] for part in parts if part is not None])
        for name in parts[0]
    }


def _describe(
    encoding: TableEncoding, how: Standardise, gaps: int, rows: int, dropped: Sequence[str]
) -> str:
    """Return one line that says how the columns became inputs."""
    categories = [c.name for c in encoding.columns if c.categories]
    numbers = len(encoding.columns) - len(categories)
    parts = [f"{len(encoding.inputs)} inputs"]
    if numbers:
        scale = {
            "pooled": "standardised over all parties", "party": "standardised by each party",
            "no": "not standardised",
        }[how]  # fmt: skip
        parts.append(f"{numbers} columns of numbers, {scale}")
    if categories:
        parts.append(f"one input per category of {_shorten(categories)}")
    if gaps:
        parts.append(f"{gaps:,} missing numbers replaced with the mean")
    if rows:
        parts.append(f"{rows:,} rows with missing values left out")
    if dropped:
        parts.append(f"without the columns {_shorten(dropped)}")
    return "; ".join(parts)


def _shorten(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _identifier_notes(table: Table, rows: Mapping[str, NumpyArray]) -> list[str]:
    """Return a note for each column in which every party has a different whole number in every row."""
    if max((len(numbers) for numbers in rows.values()), default=0) < MIN_IDENTIFIERS:
        return []
    return [
        f"Column {name!r} has a different whole number in every row of a party. If it is an "
        f"identifier, leave it out (in the shell: --set drop={name})."
        for name, column in table.items()
        if all(_are_distinct_whole_numbers(column[numbers]) for numbers in rows.values())
    ]


def _are_distinct_whole_numbers(column: NumpyArray) -> bool:
    values = column[~missing_mask(column)].tolist()
    are_whole = all(is_number(value) and float(value).is_integer() for value in values)
    return are_whole and len({float(value) for value in values}) == len(values) > 0


def _spelling_notes(target: str, classes: Sequence[str], encoding: TableEncoding) -> list[str]:
    """Return a note for each column with values that differ only in upper and lower case."""
    values_of = {target: classes} | {c.name: c.categories for c in encoding.columns}
    notes = []
    for name, values in values_of.items():
        forms = [value.casefold() for value in values]
        same = [value for value, form in zip(values, forms, strict=True) if forms.count(form) > 1]
        if same:
            shown = ", ".join(map(repr, same[:4]))
            notes.append(
                f"Column {name!r} has values that differ only in upper and lower case: {shown}."
            )
    return notes


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
    if column.dtype.kind in "OUST" and not all(is_number(value) for value in column.tolist()):
        labels = texts(column)
        require(task != "regression", label, f"texts such as {labels[0]!r}", "numbers")
        classes, codes = np.unique(labels, return_inverse=True)
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


def class_number(value: Any, classes: Sequence[str]) -> int | None:
    """Return the number of the class that a cell names, or None if no class has this name."""
    names = [str(value).strip()]
    if is_number(value):
        number = float(value)
        names = [repr(number), *([str(int(number))] if number.is_integer() else [])]
    return next((classes.index(name) for name in names if name in classes), None)


def _require_complete(column: NumpyArray, label: str) -> None:
    gaps = int(missing_mask(column).sum())
    require(
        gaps == 0, label, f"{gaps} rows without one", "present in every row",
        'Set missing to "drop" to leave rows with gaps out (in the shell: --set missing=drop).',
    )  # fmt: skip
