"""Reads the new lines of a growing ``rounds.jsonl``, from the last read position on."""

import os
import re
import zlib
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fedplus.check import SettingError
from fedplus.experiments.run_folder import MAX_BYTES, parse_lines

CHUNK = 1 << 20
"""Bytes that are read at once."""
CHECKED = 64
"""Bytes before the read position that the checksum covers."""


class ReadPosition(NamedTuple):
    """The number of bytes that were read, and a checksum of the last of them.

    A resumed run writes the same lines again, so reading can continue if the checksum still matches.
    Otherwise the file has been replaced, and reading starts again from its beginning.
    """

    offset: int = 0
    checksum: int = 0

    def __str__(self) -> str:
        return f"{self.offset}-{self.checksum:08x}"


START = ReadPosition()


def parse_position(text: str) -> ReadPosition:
    """Return the position that ``str(position)`` describes, or the start if the text is not valid."""
    match = re.fullmatch(r"([0-9]{1,15})-([0-9a-f]{8})", text)
    return ReadPosition(int(match[1]), int(match[2], 16)) if match else START


class NewLines(NamedTuple):
    """The lines that were added to a file."""

    lines: list[dict[str, Any]]
    position: ReadPosition
    """Position after the lines."""
    from_start: bool
    """Whether the lines begin with the first line of the file."""
    has_more: bool
    """Whether the file already has further lines."""


NO_LINES = NewLines([], START, from_start=True, has_more=False)


def read_new_lines(path: Path, after: ReadPosition) -> NewLines:
    """Read the complete lines after a position, at most one chunk of them.

    Raises:
        SettingError: The file is damaged or cannot be read.
    """
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb")
    except FileNotFoundError:
        return NO_LINES
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror or error}.") from error
    with file:
        start = after if _checksum(file, after.offset) == after.checksum else START
        file.seek(start.offset)
        content = file.read(CHUNK)
        while b"\n" not in content and (rest := file.read(len(content))):
            content += rest
            if len(content) > MAX_BYTES:
                raise SettingError(f"{path} is damaged: a line is longer than {MAX_BYTES:,} bytes.")
        has_more = file.read(1) != b""
        lines, size = parse_lines(content, path)
        end = start.offset + size
        position = ReadPosition(end, _checksum(file, end))
        return NewLines(lines, position, start == START, has_more and size > 0)


def _checksum(file: BinaryIO, offset: int) -> int:
    """Return the checksum of the bytes before a position, or -1 if the file is shorter."""
    start = max(0, offset - CHECKED)
    file.seek(start)
    content = file.read(offset - start)
    return zlib.crc32(content) if len(content) == offset - start else -1
