"""Builds a federation from a folder with one file per party, or from one file with a party column.

A CSV or Parquet file becomes a table (columns by name, ``table_files.py``); ``_concatenate_tables``
joins the tables of all parties, and ``tables.federation_from_columns`` turns the result into inputs
and labels. The arrays x and y of npz files go to ``Federation.from_arrays``.
"""

import os
from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError, require
from fedplus.data.federation import Federation
from fedplus.data.files.formats import read_npz
from fedplus.data.files.limits import Budget
from fedplus.data.files.source import READ_ERRORS, DataError
from fedplus.data.holdout import Splitting
from fedplus.data.metadata import Metadata
from fedplus.data.preprocessing import TableSettings, Task
from fedplus.data.table_encoding import Table
from fedplus.data.table_files import (
    TABLE_EXTENSIONS,
    extension,
    parse_numbers,
    read_csv_columns,
    read_parquet_columns,
    read_table,
)
from fedplus.data.tables import (
    encode_labels,
    federation_by_party_column,
    federation_from_columns,
    standardise_rule,
)

EXTENSIONS = (*TABLE_EXTENSIONS, ".npz")


def federation_from_folder(
    path: str | os.PathLike[str], target: str, settings: TableSettings, split: Splitting
) -> Federation:
    """Build a federation from a folder with one file per party; see ``Federation.from_folder``."""
    folder = Path(path)
    require(folder.is_dir(), "folder", repr(str(path)), "an existing folder")
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    extensions = {file: e for file in files if (e := extension(file, EXTENSIONS))}
    label = f"folder {str(path)!r}"
    require(
        bool(extensions), label, "other files only" if files else "an empty folder",
        f"one with a file per party: {', '.join(EXTENSIONS)}",
    )  # fmt: skip
    kinds = sorted({e.removesuffix(".gz") for e in extensions.values()})
    require(len(kinds) == 1, label, " and ".join(kinds), "one with files of one kind")
    names = [file.name[: -len(e)] for file, e in extensions.items()]
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
        return _federation_of_arrays(
            [_read_pair(f, budget) for f in extensions], names, settings, split
        )
    read = read_parquet_columns if kinds == [".parquet"] else read_csv_columns
    tables = {file: read(file, budget) for file in extensions}
    columns = _concatenate_tables(tables, target)
    ends = np.cumsum([len(table[target]) for table in tables.values()])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    rows_by_party = dict(zip(names, rows, strict=True))
    return federation_from_columns(columns, rows_by_party, target, settings, split)


def federation_from_file(
    path: str | os.PathLike[str], party: str | None, target: str, settings: TableSettings,
    split: Splitting,
) -> Federation:  # fmt: skip
    """Build a federation from one file with a column of parties; see ``Federation.from_file``."""
    file = Path(path)
    table = read_table(file)
    name = file.name[: -len(extension(file))]
    return federation_by_party_column(
        table, str(path), party, target, settings, {"name": name, **split}
    )


def _federation_of_arrays(
    pairs: list[tuple[NumpyArray, NumpyArray]], names: list[str], settings: TableSettings,
    split: Splitting,
) -> Federation:  # fmt: skip
    """Build a federation from the arrays x and y of each npz file."""
    for name in settings:
        require(
            name in ("task", "standardise"), "setting of npz files", name, "task or standardise",
            "The others are for CSV and Parquet files.",
        )  # fmt: skip
    pairs, classes = _encode_pair_labels(pairs, settings.get("task"))
    federation = Federation.from_arrays(pairs, names=names, **split)
    federation = federation._replace(info=Metadata(classes=classes))
    how = standardise_rule(settings.get("standardise", False))
    return federation if how == "no" else federation.standardise(by=how)


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
        name: parse_numbers(np.concatenate([table[name] for table in tables.values()]))
        for name in first
    }
