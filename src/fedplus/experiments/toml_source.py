"""A TOML file with the lines of its keys, so that a complaint can say where."""

import contextlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fedplus.check import SettingError
from fedplus.data.tables import UnclearTaskError

Place = tuple[str | int, ...]
"""Of a key: the names of its tables, the number in a list of tables, its own name."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


class TomlSource(NamedTuple):
    """Where a specification comes from; without a path, from the command line."""

    path: Path | None = None
    lines: dict[Place, int] = {}  # noqa: RUF012 - A NamedTuple's default, never changed.

    def where(self, place: Place) -> str:
        """``FILE, line 7: `` for a key, or for the table that it should be in."""
        if self.path is None:
            return ""
        while place and place not in self.lines:
            place = place[:-1]
        line = f", line {self.lines[place]}" if place else ""
        return f"{self.path}{line}: "

    @contextlib.contextmanager
    def at(self, *place: str | int) -> Iterator[None]:
        """Say where, in a complaint about what this table asks for."""
        try:
            yield
        except UnclearTaskError:
            raise  # The command line says where, or asks.
        except SettingError as error:
            said = str(error)
            about = (said.split(" ", 1)[0], *re.findall(r"got (\w+)", said))
            named = [(*place, word.split(".")[-1]) for word in about]
            found = next((one for one in named if one in self.lines), place)
            raise SettingError(f"{self.where(found)}{said}") from error


def read_toml(path: Path) -> tuple[dict[str, Any], TomlSource]:
    """The file's content, and where its keys are."""
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


def key_lines(text: str) -> dict[Place, int]:
    r"""The line of each key and table.

    >>> places('seeds = [0]\n[[methods]]\nname = "fedavg"\n')
    {('seeds',): 1, ('methods', 0): 2, ('methods', 0, 'name'): 3}
    """
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            name = _parts(header[2])
            if header[1] == "[[":
                counts[name] = counts.get(name, -1) + 1
                table = (*name, counts[name])
            else:
                inside = next((n for n in counts if name[: len(n)] == n), ())
                table = (*inside, counts[inside], *name[len(inside) :]) if inside else name
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_parts(key[1])), number)
    return found


def _parts(name: str) -> Place:
    return tuple(part.strip("\"'") for part in _PART.findall(name))
