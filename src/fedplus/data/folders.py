"""Builds a federation from a folder with one CSV, Parquet or npz file per party.

A CSV or Parquet file becomes a table (columns by name); ``_concatenate_tables`` joins the tables of all
parties, and ``tables.federation_from_columns`` turns the result into inputs and labels. The arrays x
and y of npz files go to ``Federation.from_arrays``. The parsers are in ``files/formats.py``.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError, require
from fedplus.data.federation import Federation, Missing, Task
from fedplus.data.files.formats import columns_by_name, read_csv_rows, read_npz
from fedplus.data.files.limits import Budget
from fedplus.data.files.source import READ_ERRORS, DataError, error_reason
from fedplus.data.holdout import Splitting
from fedplus.data.metadata import Metadata
from fedplus.data.tables import MISSING_MARKERS, Table, encode_labels, federation_from_columns
from fedplus.extras import import_extra

PARQUET_VALUE_BYTES = 40
"""Memory that one value of a Parquet file takes while it is converted to a number."""
EXTENSIONS = (".csv", ".csv.gz", ".parquet", ".npz")


def federation_from_folder(
    path: str | os.PathLike[str],
    target: str,
    task: Task | None,
    missing: Missing,
    split: Splitting,
) -> Federation:
    """Build a federation from a folder with one file per party; see ``Federation.from_folder``."""
    folder = Path(path)
    require(folder.is_dir(), "folder", repr(str(path)), "an existing folder")
    files = sorted(folder.iterdir())
    extensions = {file: e for file in files if (e := _extension(file))}
    label = f"folder {str(path)!r}"
    require(
        bool(extensions), label, "other files only" if files else "an empty folder",
        f"one with a file per party: {', '.join(EXTENSIONS)}",
    )  # fmt: skip
    kinds = sorted({extension.removesuffix(".gz") for extension in extensions.values()})
    require(len(kinds) == 1, label, " and ".join(kinds), "one with files of one kind")
    names = [file.name[: -len(extension)] for file, extension in extensions.items()]
    duplicates = [name for name in names if names.count(name) > 1]
    require(
        not duplicates,
        label,
        f"two files for party {''.join(duplicates[:1])!r}",
        "one with one file per party",
    )
    split = {"name": folder.resolve().name, **split}
    budget = Budget()
    if kinds == [".npz"]:
        pairs, classes = _encode_pair_labels([_read_pair(f, budget) for f in extensions], task)
        federation = Federation.from_arrays(pairs, names=names, **split)
        return federation._replace(info=Metadata(classes=classes))
    read = _read_parquet_table if kinds == [".parquet"] else _read_csv_table
    tables = {file: read(file, budget) for file in extensions}
    columns = _concatenate_tables(tables, target)
    ends = np.cumsum([len(table[target]) for table in tables.values()])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    rows_by_party = dict(zip(names, rows, strict=True))
    return federation_from_columns(columns, rows_by_party, target, task, missing, split)


def _extension(path: Path) -> str:
    return next((e for e in EXTENSIONS if path.name.lower().endswith(e)), "")


def _encode_pair_labels(
    pairs: list[tuple[NumpyArray, NumpyArray]], task: Task | None
) -> tuple[list[tuple[NumpyArray, NumpyArray]], tuple[str, ...]]:
    """Encode the labels of all parties together, so that a class has one number everywhere."""
    if any(y.ndim != 1 or y.dtype.kind not in "biuf" for _, y in pairs):
        return pairs, ()
    labels = np.concatenate([y for _, y in pairs])
    if labels.dtype.kind == "f" and task is None:
        return pairs, ()
    require(bool(np.isfinite(labels).all()), "y", "NaN or Inf", "finite numbers")
    codes, classes = encode_labels(labels, "y", task)
    ends = np.cumsum([len(y) for _, y in pairs])[:-1]
    return [(x, y) for (x, _), y in zip(pairs, np.split(codes, ends), strict=True)], classes


def _read_pair(path: Path, budget: Budget) -> tuple[NumpyArray, NumpyArray]:
    """Return the arrays x and y of an npz file."""
    try:
        arrays = read_npz(path, budget)
    except DataError:
        raise
    except READ_ERRORS as error:
        raise SettingError(f"{path} must hold arrays x and y, got an error: {error}.") from error
    names = ", ".join(arrays)
    require(
        {"x", "y"} <= set(arrays), str(path), f"the arrays {names}", "a file with arrays x and y"
    )
    return arrays["x"], arrays["y"]


def _read_csv_table(path: Path, budget: Budget) -> Table:
    """Return the columns of a CSV file as texts.

    Only the files of all parties together show whether a column holds numbers or texts, so
    ``_concatenate_tables`` converts them.
    """
    try:
        cells_by_column = columns_by_name(read_csv_rows(path, budget=budget))
    except DataError:
        raise
    except READ_ERRORS as error:
        raise SettingError(
            f"{path} must be a CSV file with a header and the same number of cells in every row, got "
            f"an error: {error_reason(error)}."
        ) from error
    names = [name.strip() for name in cells_by_column]
    require(
        "" not in names, str(path), "a column without a name", "a file whose header names all columns",
        "If pandas wrote its index into the file, df.to_csv(path, index=False) leaves it out.",
    )  # fmt: skip
    separator = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    require(
        separator is None, str(path), f"cells separated by {separator!r}", "separated by commas"
    )
    cells = cells_by_column.values()
    return {name: _object_array(column) for name, column in zip(names, cells, strict=True)}


def _object_array(cells: list[Any]) -> NumpyArray:
    """Return an object array: in NumPy's text arrays every cell is as wide as the longest one."""
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


def _parse_numbers(column: NumpyArray) -> NumpyArray:
    """Return the column as floats (NaN for a missing value), or unchanged if a cell is not a number."""
    if column.dtype.kind != "O":
        return column
    try:
        return np.array(
            [
                np.nan if isinstance(cell, str) and cell.strip() in MISSING_MARKERS else float(cell)
                for cell in column
            ]
        )
    except (TypeError, ValueError):
        return column


def _read_parquet_table(path: Path, budget: Budget) -> Table:
    """Return the columns of a Parquet file by name."""
    pyarrow = import_extra("pyarrow", "parquet", f"reading {path}")
    parquet = import_extra("pyarrow.parquet", "parquet", f"reading {path}")
    try:
        file = parquet.ParquetFile(path)
        metadata, schema = file.metadata, file.schema_arrow
        text_columns = [field.name for field in schema if _is_text(field, path)]
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        budget.take(path, sum(max(0, group.total_byte_size) for group in groups))
        budget.take(path, PARQUET_VALUE_BYTES * metadata.num_rows * metadata.num_columns)
        table: Any = parquet.read_table(path, read_dictionary=text_columns)
    except (OSError, pyarrow.ArrowException) as error:
        raise SettingError(f"{path} must be a Parquet file, got an error: {error}.") from error
    # pandas stores the index of a frame in such columns.
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    return {name: _column_array(table[name]) for name in names}


def _is_text(field: Any, path: Path) -> bool:
    """Say whether a Parquet column holds texts; raise if it holds neither texts nor numbers."""
    from pyarrow import types

    kind = field.type
    is_text = bool(types.is_string(kind) or types.is_large_string(kind))
    others = (
        types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null,
        types.is_temporal, types.is_dictionary,
    )  # fmt: skip
    is_allowed = is_text or any(is_kind(kind) for is_kind in others)
    require(is_allowed, f"column {field.name!r} of {path}", kind, "numbers or texts")
    return is_text


def _column_array(column: Any) -> NumpyArray:
    """Return a Parquet column as an array in which equal texts share their memory."""
    from pyarrow import types

    if not types.is_dictionary(column.type):
        return np.asarray(column.to_numpy())
    parts = []
    for chunk in column.chunks:
        texts = _object_array([*chunk.dictionary.to_pylist(), None])
        parts.append(texts[chunk.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)])
    return np.concatenate(parts) if parts else _object_array([])


def _concatenate_tables(tables: dict[Path, Table], target: str) -> Table:
    """Return the rows of all files as one table; all files must have the same columns."""
    first_path, first = next(iter(tables.items()))
    require(
        target in first, "target", repr(target), f"a column of {first_path}: {', '.join(first)}",
        "It is the column to predict (in the shell: --set target=COLUMN).",
    )  # fmt: skip
    for path, table in tables.items():
        absent, extra = sorted(set(first) - set(table)), sorted(set(table) - set(first))
        require(
            not absent and not extra, str(path),
            "; ".join(
                f"{kind}: {', '.join(names)}"
                for kind, names in (("missing columns", absent), ("other columns", extra))
                if names
            ),
            f"a file with the columns of {first_path.name}",
        )  # fmt: skip
        require(len(table[target]) > 0, str(path), "no rows", "a file with rows below its header")
    return {
        name: _parse_numbers(np.concatenate([table[name] for table in tables.values()]))
        for name in first
    }
