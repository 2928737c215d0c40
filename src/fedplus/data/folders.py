"""A folder with one file a party."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from fedplus._check import SettingError, require
from fedplus.data.federation import Federation, Missing
from fedplus.data.files.formats import columns, csv_rows, npz
from fedplus.data.holdout import Splitting
from fedplus.data.split import Host
from fedplus.data.tables import Table, federation_of_table

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
    names = [f.name.removesuffix(k) for f, k in files.items()]
    split = {"name": folder.resolve().name, **split}
    if kinds == [".npz"]:
        return Federation.from_arrays([_pair(f) for f in files], names=names, **split)
    tables = {f: _table(f, k) for f, k in files.items()}
    whole = _joined(tables, target)
    ends = np.cumsum([len(table[target]) for table in tables.values()])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    parties = dict(zip(names, rows, strict=True))
    return federation_of_table(whole, parties, target, regress, missing, split)


def _kind(path: Path) -> str:
    return next((k for k in KINDS if path.name.endswith(k)), "")


def _pair(path: Path) -> tuple[Host, Host]:
    try:
        arrays = npz(path)
    except (OSError, ValueError) as error:
        raise SettingError(f"{path} must hold arrays x and y, got an error: {error}.") from error
    got = ", ".join(arrays)
    require({"x", "y"} <= set(arrays), str(path), f"the arrays {got}", "a file with arrays x and y")
    return arrays["x"], arrays["y"]


def _table(path: Path, kind: str) -> Table:
    return _from_parquet(path) if kind == ".parquet" else _from_csv(path)


def _from_csv(path: Path) -> Table:
    try:
        table = columns(csv_rows(path))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        told = str(error).splitlines()[0]
        raise SettingError(
            f"{path} must be a CSV file with a header and as many cells in every row, got an "
            f"error: {told}."
        ) from error
    return {name.strip(): _numbers_or_texts(cells) for name, cells in table.items()}


def _numbers_or_texts(cells: list[str]) -> Host:
    try:
        return np.array([float(c) if c.strip() not in ("", "?", "NA") else np.nan for c in cells])
    except ValueError:
        return np.array(cells)


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
    return {name: np.concatenate([table[name] for table in tables.values()]) for name in like}
