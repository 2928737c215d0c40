"""Readers of the formats that the sets come in: idx, gzipped CSV, members of a zip, npz."""

import csv
import gzip
import io
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from fedplus._types import Host
from fedplus.data.files.file import DataError

IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(data: bytes, name: str) -> Host:
    """An array in the format of MNIST: two zeros, a type, the number of axes, their lengths, data."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    ok = len(data) >= 4 and data[:2] == b"\0\0" and data[2] in IDX_TYPES
    if not ok:
        raise DataError(f"{name} must be an idx file, got {data[:4]!r} at its beginning.")
    axes = data[3]
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", axes, 4))
    kind = np.dtype(IDX_TYPES[data[2]])
    body = len(data) - 4 - 4 * axes
    if body != int(np.prod(shape)) * kind.itemsize:
        raise DataError(f"{name} must hold {shape} numbers of type {kind}, got {body} bytes.")
    flat = np.frombuffer(data, kind, offset=4 + 4 * axes)
    return flat.reshape(shape).astype(kind.newbyteorder("="), copy=False)


def idx(path: Path) -> Host:
    """An idx file, gzipped or not."""
    return read_idx(path.read_bytes(), path.name)


def npz(path: Path) -> dict[str, Host]:
    """The arrays of an npz file; objects are refused, for they would be unpickled."""
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def member(path: Path, name: str) -> IO[bytes]:
    """One file of a zip archive, read in place: nothing is unpacked onto the disk."""
    archive = zipfile.ZipFile(path)
    try:
        return archive.open(name)
    except KeyError:
        have = ", ".join(archive.namelist()[:5])
        raise DataError(f"{path} must contain {name}, got {have}, ...") from None


def csv_rows(path: Path, encoding: str = "utf-8-sig", delimiter: str = ",") -> list[list[str]]:
    """The rows of a CSV file, gzipped or not, the header among them; empty lines are not."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    lines = csv.reader(io.StringIO(data.decode(encoding), newline=""), delimiter=delimiter)
    return [row for row in lines if row]


def columns(rows: list[list[str]]) -> dict[str, list[str]]:
    """The columns of rows with a header, by name."""
    if not rows:
        raise ValueError("it is empty")
    header, *body = rows
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise ValueError(f"two columns are called {twice!r}")
    if any(len(row) != len(header) for row in body):
        line = next(i for i, row in enumerate(body) if len(row) != len(header))
        raise ValueError(
            f"row {line + 1} has {len(body[line])} cells where the header has {len(header)}"
        )
    return {name: [row[i] for row in body] for i, name in enumerate(header)}


def numbers(texts: list[str]) -> Host:
    """Floats; an empty text or ? is a missing number."""
    return np.array([float(t) if t not in ("", "?") else np.nan for t in texts])
