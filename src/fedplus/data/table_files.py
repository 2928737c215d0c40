"""Reads a CSV or Parquet file as a table: columns by name. The parsers are in ``files/formats.py``."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError, require
from fedplus.data.files.formats import columns_by_name, read_csv_rows
from fedplus.data.files.limits import Budget
from fedplus.data.files.source import READ_ERRORS, DataError, error_reason
from fedplus.data.table_encoding import MISSING_MARKERS, Table, is_number
from fedplus.extras import import_extra

PARQUET_VALUE_BYTES = 40
"""Memory that one value of a Parquet file takes while it is converted to a number."""
TABLE_EXTENSIONS = (".csv", ".csv.gz", ".parquet")
OTHER_DELIMITERS = ";\t|"
"""Delimiters that are recognised in a header without commas; decimal commas are, too, then."""
_DECIMAL_COMMA = re.compile(r"[-+]?\d*(,\d+)?")


def extension(path: Path, among: tuple[str, ...] = TABLE_EXTENSIONS) -> str:
    """Return which of these extensions the name of a file has, or "" if it has none of them."""
    return next((e for e in among if path.name.lower().endswith(e)), "")


def read_table(path: Path, budget: Budget | None = None) -> Table:
    """Return the columns of a CSV or Parquet file, with numbers as floats.

    Args:
        path: The file; a CSV file has a header, and may be gzipped.
        budget: Memory that loading may take; by default a new one.

    Raises:
        SettingError: The path is no such file, or the file is damaged.
    """
    kind = extension(path)
    require(
        bool(kind) and path.is_file(), "the table", str(path),
        f"an existing file: {', '.join(TABLE_EXTENSIONS)}",
    )  # fmt: skip
    read = read_parquet_columns if kind == ".parquet" else read_csv_columns
    return {name: parse_numbers(c) for name, c in read(path, budget or Budget()).items()}


def read_csv_columns(path: Path, budget: Budget) -> Table:
    """Return the columns of a CSV file as texts.

    Only the files of all parties together show whether a column holds numbers or texts, so
    ``parse_numbers`` converts them later.
    """
    try:
        rows = read_csv_rows(path, budget=budget)
        delimiter = _other_delimiter(rows)
        if delimiter:
            rows = read_csv_rows(path, delimiter=delimiter, budget=budget)
        cells_by_column = columns_by_name(rows)
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
    cells = list(cells_by_column.values())
    if delimiter:
        cells = [_with_decimal_points(column) for column in cells]
    return {name: _object_array(column) for name, column in zip(names, cells, strict=True)}


def _other_delimiter(rows: list[list[str]]) -> str:
    """Return the delimiter of rows that have no commas between their cells, or "" if they have."""
    is_one_cell = bool(rows) and len(rows[0]) == 1
    return next((mark for mark in OTHER_DELIMITERS if is_one_cell and mark in rows[0][0]), "")


def _with_decimal_points(cells: list[str]) -> list[str]:
    """Return a column's cells with decimal points, if they are numbers with decimal commas."""
    values = [cell.strip() for cell in cells if cell.strip() not in MISSING_MARKERS]
    has_commas = any("," in value for value in values)
    if has_commas and all(_DECIMAL_COMMA.fullmatch(value) for value in values):
        return [cell.replace(",", ".") for cell in cells]
    return cells


def _object_array(cells: list[Any]) -> NumpyArray:
    """Return an object array: in NumPy's text arrays every cell is as wide as the longest one."""
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


def read_parquet_columns(path: Path, budget: Budget) -> Table:
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


def _number(cell: Any) -> float:
    if not is_number(cell):
        raise ValueError(f"{cell!r} is no number")
    return float(cell)


def parse_numbers(column: NumpyArray) -> NumpyArray:
    """Return the column as floats (NaN for a missing value), or unchanged if a cell is not a number."""
    if column.dtype.kind != "O":
        return column
    try:
        return np.array(
            [
                np.nan
                if isinstance(cell, str) and cell.strip() in MISSING_MARKERS
                else _number(cell)
                for cell in column
            ]
        )
    except (TypeError, ValueError):
        return column
