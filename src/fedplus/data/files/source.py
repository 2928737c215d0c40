"""A data file, its origin, and the reader of one or more such files."""

import csv
import dataclasses
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedplus.check import SettingError

READ_ERRORS = (OSError, ValueError, KeyError, EOFError, zlib.error, zipfile.BadZipFile, csv.Error)
"""Exceptions that reading a damaged file raises."""


class DataError(SettingError):
    """A data file is absent, damaged or of the wrong kind; the message says what to do."""


def error_reason(error: BaseException) -> str:
    """Return the message of an error in one line, or its type if it has no message."""
    return " ".join(str(error).split()) or type(error).__name__


@dataclasses.dataclass(frozen=True)
class File:
    """One file.

    Args:
        path: Path under the data folder, e.g. ``mnist/train-images-idx3-ubyte.gz``.
        checksum: ``sha256:...`` or ``md5:...``; empty if the publisher gives none and the reader checks
            the content.
        urls: Addresses to download it from, tried in turn. Without any, the user has to place the file.
        origin: Where a person gets the file, in words.
    """

    path: str
    checksum: str = ""
    urls: tuple[str, ...] = ()
    origin: str = ""

    @property
    def comes_from(self) -> str:
        """Where a person gets the file, for messages."""
        return self.origin or (self.urls[0] if self.urls else "no public address")


@dataclasses.dataclass(frozen=True)
class Source:
    """Files that together hold some data, and the function that reads them.

    Args:
        files: The files.
        read: (path of the first file, path of the second file, ...) ↦ the data.
    """

    files: tuple[File, ...]
    read: Callable[..., Any]

    def __call__(self, paths: list[Path]) -> Any:
        """Read the data.

        Args:
            paths: Where the files are, in the order of ``files``.

        Raises:
            DataError: A file is damaged or not the published one.
        """
        try:
            return self.read(*paths)
        except DataError:
            raise
        except READ_ERRORS as error:
            names = ", ".join(map(str, paths))
            raise DataError(
                f"{names} must be as published, got an error while reading: {error_reason(error)}. "
                "Remove it and fetch it again."
            ) from error
