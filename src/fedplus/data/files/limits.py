"""A limit on the memory that loading data may take, checked before the memory is allocated.

A file of a few megabytes can unpack to gigabytes, and its header can state any size, so all readers
check here first. The environment variable ``FEDPLUS_MAX_DATA_MB`` sets another limit.
"""

import io
import math
import os
from pathlib import Path
from typing import Protocol, final

from fedplus.check import SettingError
from fedplus.data.files.source import DataError

VARIABLE = "FEDPLUS_MAX_DATA_MB"
DEFAULT = 4096
"""Megabytes (2**20 bytes) that loading one file, or all files of a folder, may take."""
MB = 2**20


def memory_limit() -> int:
    """Return the limit in bytes.

    Raises:
        SettingError: The environment variable is not a positive number.
    """
    given = os.environ.get(VARIABLE) or str(DEFAULT)
    try:
        megabytes = float(given)
    except ValueError:
        megabytes = math.nan
    if not (megabytes > 0 and math.isfinite(megabytes)):
        raise SettingError(f"{VARIABLE} must be a number of megabytes > 0, got {given!r}.")
    return int(megabytes * MB)


@final
class Budget:
    """Counts the memory that loading takes; all files of one federation share one budget."""

    def __init__(self) -> None:
        self.limit = memory_limit()
        self.taken = 0
        self._files: set[str] = set()

    def take(self, path: Path | str, size: int) -> None:
        """Count memory that is about to be allocated.

        Args:
            path: The file that is being read, for the message.
            size: Number of bytes.

        Raises:
            DataError: The limit would be exceeded.
        """
        self.taken += size
        self._files.add(str(path))
        if self.taken <= self.limit:
            return
        others = ", with the other files of the folder" if len(self._files) > 1 else ""
        needed = -(-self.taken // MB)
        raise DataError(
            f"{path} must take at most {self.limit // MB} MB of memory to load{others}, got "
            f"{needed} MB or more. Set {VARIABLE}={-(-needed * 5 // 4)} if the data are meant to be "
            "this large."
        )


class Readable(Protocol):
    """A source of bytes: a file, a gzip file or a member of an archive."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, and no bytes at the end."""
        ...

    def close(self) -> None:
        """Close the source."""
        ...


@final
class LimitedStream(io.RawIOBase):
    """A stream that counts its bytes in a budget as they are read."""

    def __init__(self, stream: Readable, path: Path | str, budget: Budget) -> None:
        self._stream, self._path, self._budget = stream, path, budget

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        """Read up to ``len(buffer)`` bytes into the buffer, and return their number."""
        content = self._stream.read(len(buffer))
        self._budget.take(self._path, len(content))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close this stream and the one it reads from."""
        self._stream.close()
        super().close()


def limit_stream(
    stream: Readable, path: Path | str, budget: Budget | None = None
) -> io.BufferedReader:
    """Return a buffered stream that raises ``DataError`` when more than the limit is read."""
    return io.BufferedReader(LimitedStream(stream, path, budget or Budget()), 1 << 16)
