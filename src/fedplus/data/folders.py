"""A folder with one file a party."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from fedplus._types import Host
from fedplus.check import SettingError, require
from fedplus.data.federation import Federation, Missing, Task
from fedplus.data.files.formats import columns_by_name, read_csv_rows, read_npz
from fedplus.data.files.limits import Budget
from fedplus.data.files.source import DAMAGED, DataError
from fedplus.data.holdout import Splitting
from fedplus.data.metadata import Metadata
from fedplus.data.tables import GAPS, Table, encode_labels, federation_from_columns

VALUE = 40
"""Bytes that a value of a Parquet file takes until it is a number among others."""
KINDS = (".csv", ".csv.gz", ".parquet", ".npz")


def federation_from_folder(
    path: str | os.PathLike[str], target: str, task: Task | None, missing: Missing,
    split: Splitting,
) -> Federation:  # fmt: skip
    """See ``Federation.from_folder``."""
    folder = Path(path)
    require(folder.is_dir(), "folder", repr(str(path)), "a folder that is there")
    files = {f: k for f in sorted(folder.iterdir()) if (k := _kind(f))}
    require(
        bool(files), f"folder {str(path)!r}", f"{len(list(folder.iterdir()))} files of other kinds",
        f"one with a file a party: {', '.join(KINDS)}",
    )  # fmt: skip
    kinds = sorted({k.removesuffix(".gz") for k in files.values()})
    require(len(kinds) == 1, f"folder {str(path)!r}", " and ".join(kinds), "files of one kind")
    names = [f.name[: -len(k)] for f, k in files.items()]
    twice = [name for name in names if names.count(name) > 1]
    require(not twice, f"folder {str(path)!r}", f"two files of {twice[:1]}", "one file a party")
    split = {"name": folder.resolve().name, **split}
    budget = Budget()
    if kinds == [".npz"]:
        pairs, classes = _labelled([_pair(f, budget) for f in files], task)
        made = Federation.from_arrays(pairs, names=names, **split)
        return made._replace(info=Metadata(classes=classes))
    read = _from_parquet if kinds == [".parquet"] else _from_csv
    tables = {f: read(f, budget) for f in files}
    whole = _joined(tables, target)
    ends = np.cumsum([len(table[target]) for table in tables.values()])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    parties = dict(zip(names, rows, strict=True))
    return federation_from_columns(whole, parties, target, task, missing, split)


def _kind(path: Path) -> str:
    return next((k for k in KINDS if path.name.lower().endswith(k)), "")


def _labelled(
    pairs: list[tuple[Host, Host]], task: Task | None
) -> tuple[list[tuple[Host, Host]], tuple[str, ...]]:
    """Make classes or numbers of the labels of all parties together, as in a table."""
    if any(y.ndim != 1 or y.dtype.kind not in "biuf" for _, y in pairs):
        return pairs, ()
    joined = np.concatenate([y for _, y in pairs])
    if joined.dtype.kind == "f" and task is None:
        return pairs, ()
    require(bool(np.isfinite(joined).all()), "y", "NaN or Inf", "finite numbers")
    y, classes = encode_labels(joined, "y", task)
    ends = np.cumsum([len(mine) for _, mine in pairs])[:-1]
    return [(x, mine) for (x, _), mine in zip(pairs, np.split(y, ends), strict=True)], classes


def _pair(path: Path, budget: Budget) -> tuple[Host, Host]:
    try:
        arrays = read_npz(path, budget)
    except DataError:
        raise
    except DAMAGED as error:
        raise SettingError(f"{path} must hold arrays x and y, got an error: {error}.") from error
    got = ", ".join(arrays)
    require({"x", "y"} <= set(arrays), str(path), f"the arrays {got}", "a file with arrays x and y")
    return arrays["x"], arrays["y"]


def _from_csv(path: Path, budget: Budget) -> Table:
    """Columns of texts: what they are is told once all parties' are there."""
    try:
        table = columns_by_name(read_csv_rows(path, budget=budget))
    except DataError:
        raise
    except DAMAGED as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SettingError(
            f"{path} must be a CSV file with a header and as many cells in every row, got an "
            f"error: {told}."
        ) from error
    names = [name.strip() for name in table]
    require(
        "" not in names, str(path), "a column without a name", "a file whose header names all columns",
        "An index that pandas wrote? df.to_csv(path, index=False) leaves it out.",
    )  # fmt: skip
    split = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    require(split is None, str(path), f"cells separated by {split!r}", "separated by commas")
    return {name: _objects(cells) for name, cells in zip(names, table.values(), strict=True)}


def _objects(cells: list[Any]) -> Host:
    """Keep each cell as it is: NumPy's own texts all take the width of the longest."""
    made = np.empty(len(cells), dtype=object)
    made[:] = cells
    return made


def _numbers_or_texts(cells: Host) -> Host:
    if cells.dtype.kind != "O":
        return cells
    try:
        return np.array(
            [np.nan if isinstance(c, str) and c.strip() in GAPS else float(c) for c in cells]
        )
    except (TypeError, ValueError):
        return cells


def _from_parquet(path: Path, budget: Budget) -> Table:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise SettingError(
            f"{path} needs pyarrow to read. pip install fedplus[parquet]."
        ) from error
    try:
        file = pyarrow.parquet.ParquetFile(path)
        about, schema = file.metadata, file.schema_arrow
        texts = [field.name for field in schema if _is_text(field, path)]
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        budget.take(path, sum(max(0, group.total_byte_size) for group in groups))
        budget.take(path, VALUE * about.num_rows * about.num_columns)
        table: Any = pyarrow.parquet.read_table(path, read_dictionary=texts)
    except (OSError, pyarrow.ArrowException) as error:
        raise SettingError(f"{path} must be a Parquet file, got an error: {error}.") from error
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    return {name: _values(table[name]) for name in names}  # pandas writes an index.


def _is_text(field: Any, path: Path) -> bool:
    """Say whether a column holds texts, and refuse it if it holds neither texts nor numbers."""
    from pyarrow import types

    kind = field.type
    text = bool(types.is_string(kind) or types.is_large_string(kind))
    others = (
        types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null,
        types.is_temporal, types.is_dictionary,
    )  # fmt: skip
    require(
        text or any(test(kind) for test in others), f"column {field.name!r} of {path}", kind,
        "numbers or texts",
    )  # fmt: skip
    return text


def _values(column: Any) -> Host:
    """Return a column as an array; a text that is there often is in memory once."""
    from pyarrow import types

    if not types.is_dictionary(column.type):
        return np.asarray(column.to_numpy())
    parts = []
    for chunk in column.chunks:
        known = _objects([*chunk.dictionary.to_pylist(), None])
        parts.append(known[chunk.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)])
    return np.concatenate(parts) if parts else _objects([])


def _joined(tables: dict[Path, Table], target: str) -> Table:
    first, like = next(iter(tables.items()))
    require(target in like, "target", repr(target), f"a column of {first}: {', '.join(like)}")
    for path, table in tables.items():
        missing, more = set(like) - set(table), set(table) - set(like)
        require(
            not missing and not more, str(path),
            f"{', '.join(sorted(missing)) or 'nothing'} missing and "
            f"{', '.join(sorted(more)) or 'nothing'} more",
            f"a file with the columns of {first.name}",
        )  # fmt: skip
        require(len(table[target]) > 0, str(path), "no rows", "a file with rows below its header")
    return {
        name: _numbers_or_texts(np.concatenate([table[name] for table in tables.values()]))
        for name in like
    }
