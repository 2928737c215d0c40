"""A data file and where it comes from."""

import csv
import dataclasses
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedplus.check import SettingError

DAMAGED = (OSError, ValueError, KeyError, EOFError, zlib.error, zipfile.BadZipFile, csv.Error)
"""What reading a damaged file raises."""


class DataError(SettingError):
    """A data file is absent, damaged or not what it should be: one line that says what to do."""


@dataclasses.dataclass(frozen=True)
class File:
    """One file.

    Args:
        path: Under the data folder, e.g. ``mnist/train-images-idx3-ubyte.gz``.
        checksum: ``sha256:...`` or ``md5:...``; empty where the publisher gives none and the reader
            checks what is inside.
        urls: Where to download it; each is tried in turn. None: a person has to put it there.
        origin: In words, where a person gets it.
    """

    path: str
    checksum: str = ""
    urls: tuple[str, ...] = ()
    origin: str = ""

    @property
    def comes_from(self) -> str:
        """For a person."""
        return self.origin or (self.urls[0] if self.urls else "no public address")


@dataclasses.dataclass(frozen=True)
class Source:
    """Files that together hold some data, and how to read them."""

    files: tuple[File, ...]
    read: Callable[..., Any]
    """(path of the first file, of the second, ...) ↦ the data."""

    def __call__(self, paths: list[Path]) -> Any:
        """The data; a file that is not what it should be is a ``DataError``."""
        try:
            return self.read(*paths)
        except DataError:
            raise
        except DAMAGED as error:
            told = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            where = ", ".join(map(str, paths))
            raise DataError(
                f"{where} must be as published, got an error while reading: {told}. "
                "Remove it and fetch it again."
            ) from error
