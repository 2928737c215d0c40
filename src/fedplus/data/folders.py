"""A folder with one file a party."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from fedplus._check import SettingError, require
from fedplus._types import Host
from fedplus.data.federation import Federation, Missing
from fedplus.data.files.file import DAMAGED
from fedplus.data.files.formats import columns, csv_rows, npz
from fedplus.data.holdout import Splitting
from fedplus.data.tables import GAPS, Table, federation_of_table

KINDS = (".csv", ".csv.gz", ".parquet", ".npz")


def federation_of_folder(
    path: str | os.PathLike[str], target: str, regress: bool | None, missing: Missing,
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
    if kinds == [".npz"]:
        return Federation.from_arrays([_pair(f) for f in files], names=names, **split)
    tables = {f: _from_parquet(f) if kinds == [".parquet"] else _from_csv(f) for f in files}
    whole = _joined(tables, target)
    ends = np.cumsum([len(table[target]) for table in tables.values()])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    parties = dict(zip(names, rows, strict=True))
    return federation_of_table(whole, parties, target, regress, missing, split)


def _kind(path: Path) -> str:
    return next((k for k in KINDS if path.name.lower().endswith(k)), "")


def _pair(path: Path) -> tuple[Host, Host]:
    try:
        arrays = npz(path)
    except DAMAGED as error:
        raise SettingError(f"{path} must hold arrays x and y, got an error: {error}.") from error
    got = ", ".join(arrays)
    require({"x", "y"} <= set(arrays), str(path), f"the arrays {got}", "a file with arrays x and y")
    return arrays["x"], arrays["y"]


def _from_csv(path: Path) -> Table:
    """Columns of texts: what they are is told once all parties' are there."""
    try:
        table = columns(csv_rows(path))
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
    return dict(zip(names, map(np.array, table.values()), strict=True))


def _numbers_or_texts(cells: Host) -> Host:
    if cells.dtype.kind != "U":
        return cells
    try:
        gaps = np.isin(np.char.strip(cells), GAPS)
        return np.where(gaps, "nan", cells).astype(float)
    except ValueError:
        return cells


def _from_parquet(path: Path) -> Table:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise SettingError(
            f"{path} needs pyarrow to read. pip install fedplus[parquet]."
        ) from error
    try:
        table: Any = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise SettingError(f"{path} must be a Parquet file, got an error: {error}.") from error
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    return {name: np.asarray(table[name].to_numpy()) for name in names}  # pandas writes an index.


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
