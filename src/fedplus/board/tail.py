"""New lines of a ``rounds.jsonl`` that grows, from where one left off."""

import os
import re
import zlib
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fedplus.check import SettingError
from fedplus.experiments.run_folder import LARGEST, parse_lines

CHUNK = 1 << 20
TAIL = 64


class ReadPosition(NamedTuple):
    """How many bytes were read, and a checksum of the last of them.

    A run repeats bit by bit, so a file that was cut and grew again may well hold what it held: then
    one goes on. Where the checksum differs one starts anew.
    """

    offset: int = 0
    check: int = 0

    def __str__(self) -> str:
        return f"{self.offset}-{self.check:08x}"


START = ReadPosition()


def parse_position(text: str) -> ReadPosition:
    """A position that was written out; the start if it is none."""
    found = re.fullmatch(r"([0-9]{1,15})-([0-9a-f]{8})", text)
    return ReadPosition(int(found[1]), int(found[2], 16)) if found else START


class NewLines(NamedTuple):
    """What was added."""

    lines: list[dict[str, Any]]
    position: ReadPosition
    anew: bool  # From the file's first line.
    more: bool  # There are more whole lines already.


NOTHING = NewLines([], START, anew=True, more=False)


def read_new_lines(path: Path, after: ReadPosition) -> NewLines:
    """Whole lines after a position, a chunk of them at most."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb")
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror or error}.") from error
    with file:
        begin = after if _tail(file, after.offset) == after.check else START
        file.seek(begin.offset)
        content = file.read(CHUNK)
        while b"\n" not in content and (rest := file.read(len(content))):
            content += rest
            if len(content) > LARGEST:
                raise SettingError(f"{path} is damaged: a line is longer than {LARGEST:,} bytes.")
        more = file.read(1) != b""
        lines, size = parse_lines(content, path)
        end = begin.offset + size
        return NewLines(
            lines, ReadPosition(end, _tail(file, end)), begin == START, more and size > 0
        )


def _tail(file: BinaryIO, offset: int) -> int:
    start = max(0, offset - TAIL)
    file.seek(start)
    kept = file.read(offset - start)
    return zlib.crc32(kept) if len(kept) == offset - start else -1
