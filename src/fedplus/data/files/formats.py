"""Parsers of data files: CSV (gzipped or not), npz, idx, and members of zip archives."""

import collections
import csv
import gzip
import io
import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.files.limits import Budget, limit_stream
from fedplus.data.files.source import DataError

GZIP = b"\x1f\x8b"
MAX_ROW_BYTES = 16 * 2**20
"""Length of the longest row of a CSV file that is read."""
CELL_OVERHEAD_BYTES = 120
"""Memory that a cell of a CSV file takes in addition to its text, until it is converted to a number."""
ARRAY_COPIES = 3
"""How many copies of an array are in memory at once while a federation is built from it."""
_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(data: bytes, name: str) -> NumpyArray:
    """Parse an array in MNIST's format: two zeros, a type, the number of axes, their lengths, data.

    Args:
        data: Content of the file, gzipped or not.
        name: Name of the file, for messages.

    Raises:
        DataError: The content is not in this format, or its length does not match its header.
    """
    if data[:2] == GZIP:
        data = limit_stream(gzip.GzipFile(fileobj=io.BytesIO(data)), name).read()
    is_idx = len(data) >= 4 and data[:2] == b"\0\0" and data[2] in IDX_TYPES
    if not is_idx:
        raise DataError(f"{name} must be an idx file, got {data[:4]!r} at its beginning.")
    axes = data[3]
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", axes, 4))
    kind = np.dtype(IDX_TYPES[data[2]])
    body = len(data) - 4 - 4 * axes
    if body != math.prod(shape) * kind.itemsize:
        raise DataError(f"{name} must hold {shape} numbers of type {kind}, got {body} bytes.")
    flat = np.frombuffer(data, kind, offset=4 + 4 * axes)
    return flat.reshape(shape).astype(kind.newbyteorder("="), copy=False)


def read_idx_file(path: Path) -> NumpyArray:
    """Return the array of an idx file, gzipped or not."""
    with limit_stream(path.open("rb"), path.name) as file:
        return read_idx(file.read(), path.name)


def read_npz(path: Path, budget: Budget | None = None) -> dict[str, NumpyArray]:
    """Return the arrays of an npz file by name.

    Args:
        path: The file. Arrays of objects are refused, because they would be unpickled.
        budget: Memory that loading may take; by default a new one.

    Raises:
        DataError: The arrays, as their headers state them, need more memory than the limit.
        ValueError: A member is not an array, or its header does not fit its content.
    """
    budget = budget or Budget()
    arrays: dict[str, NumpyArray] = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            _require_readable(entry)
            with archive.open(entry) as stream:
                _require_array(stream, entry, path, budget)
            with archive.open(entry) as stream:
                arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
    return arrays


def _require_array(stream: IO[bytes], entry: zipfile.ZipInfo, path: Path, budget: Budget) -> None:
    """Check the header against the limit and the member's size before memory is allocated."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"{entry.filename} is of format {version}, which is not read")
    shape, _, kind = _HEADERS[version](stream)
    if kind.hasobject:
        raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
    size = math.prod(shape) * kind.itemsize
    budget.take(path, ARRAY_COPIES * max(size, 8 * max((*shape, 0))))
    body = entry.file_size - stream.tell()
    if min((*shape, 0)) < 0 or size != body:
        raise ValueError(
            f"{entry.filename} should hold {shape} numbers of type {kind}, and holds {body} bytes"
        )


def _require_readable(entry: zipfile.ZipInfo) -> None:
    if entry.flag_bits & 1:
        raise ValueError(f"{entry.filename} is encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename} is neither stored nor deflated")


def read_zip_member(path: Path, name: str) -> IO[bytes]:
    """Open one file of a zip archive; nothing is unpacked onto the disk.

    Raises:
        DataError: The archive has no such file.
    """
    archive = zipfile.ZipFile(path)
    try:
        entry = archive.getinfo(name)
    except KeyError:
        names = ", ".join(archive.namelist()[:5])
        raise DataError(f"{path} must contain {name}, got {names}, ...") from None
    _require_readable(entry)
    return limit_stream(archive.open(entry), f"{path}: {name}")


def read_csv_rows(
    path: Path,
    encoding: str = "utf-8-sig",
    delimiter: str = ",",
    budget: Budget | None = None,
) -> list[list[str]]:
    """Return the rows of a CSV file, gzipped or not, with the header and without empty lines.

    Args:
        path: The file.
        encoding: Encoding of the text.
        delimiter: Separator of two cells.
        budget: Memory that loading may take; by default a new one.

    Raises:
        DataError: The file needs more memory than the limit, or a row is longer than ``MAX_ROW_BYTES``.
    """
    budget = budget or Budget()
    with path.open("rb") as file:
        is_gzipped = file.read(2) == GZIP
        file.seek(0)
        stream = gzip.GzipFile(fileobj=file) if is_gzipped else file
        text = io.TextIOWrapper(limit_stream(stream, path, budget), encoding=encoding, newline="")
        lines = _Lines(text, path)
        rows = []
        for row in csv.reader(lines, delimiter=delimiter):
            lines.length = 0
            if row:
                budget.take(path, CELL_OVERHEAD_BYTES * len(row))
                rows.append(row)
    return rows


class _Lines:
    """Iterates over the lines of a text, and raises while it reads a row that is too long."""

    def __init__(self, text: io.TextIOWrapper, path: Path) -> None:
        self.text, self.path, self.length = text, path, 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self.text.readline(MAX_ROW_BYTES + 1)
        self.length += len(line)
        if self.length > MAX_ROW_BYTES:
            raise DataError(
                f"{self.path} must have rows of at most {MAX_ROW_BYTES // 2**20} MB, got a longer one."
            )
        if not line:
            raise StopIteration
        return line


def columns_by_name(rows: list[list[str]]) -> dict[str, list[str]]:
    """Return the columns of a table by name.

    Args:
        rows: The rows; the first one is the header.

    Raises:
        ValueError: There is no header, two columns have one name, or a row has too few or many cells.
    """
    if not rows:
        raise ValueError("it is empty")
    header, *body = rows
    header = [name.strip() for name in header]
    if len(set(header)) < len(header):
        duplicate, _ = collections.Counter(header).most_common(1)[0]
        raise ValueError(f"two columns are called {duplicate!r}")
    if any(len(row) != len(header) for row in body):
        line = next(i for i, row in enumerate(body) if len(row) != len(header))
        raise ValueError(
            f"row {line + 1} has {len(body[line])} cells where the header has {len(header)}"
        )
    return {name: [row[i] for row in body] for i, name in enumerate(header)}


def parse_floats(texts: list[str]) -> NumpyArray:
    """Return the texts as floats; an empty text or "?" becomes NaN."""
    return np.array([float(text) if text not in ("", "?") else np.nan for text in texts])
