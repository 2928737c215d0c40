"""Reads a TOML file with the line numbers of its keys, so that error messages can name the line."""

import contextlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fedplus.check import SettingError
from fedplus.data.tables import UnclearTaskError

KeyPath = tuple[str | int, ...]
"""Location of a key: names of its tables, index in a list of tables, its own name."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


class TomlSource(NamedTuple):
    """The file that a specification comes from; ``path`` is None for the command line."""

    path: Path | None = None
    lines: dict[KeyPath, int] = {}  # noqa: RUF012 - A NamedTuple's default, never changed.

    def location(self, key_path: KeyPath) -> str:
        """Return the start of an error message about a key, such as ``FILE, line 7: ``.

        The line of the enclosing table is given if the file does not have the key. The result is
        empty for the command line.
        """
        if self.path is None:
            return ""
        while key_path and key_path not in self.lines:
            key_path = key_path[:-1]
        line = f", line {self.lines[key_path]}" if key_path else ""
        return f"{self.path}{line}: "

    @contextlib.contextmanager
    def locate_errors(self, *table: str | int) -> Iterator[None]:
        """Add the file and the line to every ``SettingError`` about this table in a ``with`` block."""
        try:
            yield
        except UnclearTaskError:
            raise  # The command line adds the location itself, or asks the user.
        except SettingError as error:
            message = str(error)
            words = (message.split(" ", 1)[0], *re.findall(r"got (\w+)", message))
            candidates = [(*table, word.split(".")[-1]) for word in words]
            key_path = next((key for key in candidates if key in self.lines), table)
            raise SettingError(f"{self.location(key_path)}{message}") from error


def read_toml(path: Path) -> tuple[dict[str, Any], TomlSource]:
    """Read a TOML file.

    Returns:
        The tables, and the source with the line of each key.

    Raises:
        SettingError: The file cannot be read, is not UTF-8 or is not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SettingError(f"{path} is not UTF-8: {error.reason}.") from error
    try:
        return tomllib.loads(text), TomlSource(path, key_lines(text))
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{path} is not TOML: {error}.") from error


def key_lines(text: str) -> dict[KeyPath, int]:
    r"""Return the line number of each key and table.

    >>> key_lines('seeds = [0]\n[[methods]]\nname = "fedavg"\n')
    {('seeds',): 1, ('methods', 0): 2, ('methods', 0, 'name'): 3}
    """
    lines: dict[KeyPath, int] = {}
    last_index: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            name = _split_name(header[2])
            if header[1] == "[[":
                last_index[name] = last_index.get(name, -1) + 1
                table = (*name, last_index[name])
            else:
                parent = next((n for n in last_index if name[: len(n)] == n), ())
                table = (*parent, last_index[parent], *name[len(parent) :]) if parent else name
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_split_name(key[1])), number)
    return lines


def _split_name(name: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in _PART.findall(name))
