"""A run folder, read: see docs/runs.md for what is in it."""

import json
import os
import stat
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from fedplus.check import SettingError

FORMAT = "fedplus-run-1"
SPEC, ENV, STATUS, PARTIES = "spec.toml", "env.json", "status.json", "parties.json"
ROUNDS, CHECKPOINT, MODELS, REPORT = "rounds.jsonl", "checkpoint", "models", "report.html"
GLOBAL = "global.safetensors"
DEPTH = 4
"""How deep below a folder runs are looked for."""
LARGEST = 2**30
"""Bytes of a file that is read as a whole, and of a line of ``rounds.jsonl``."""
LONGEST = 200
"""Of a file's name, in characters."""


class RunFolder(NamedTuple):
    """One run on disk, finished or not."""

    path: Path

    @property
    def status(self) -> dict[str, Any]:
        """How far it is."""
        return self._json(STATUS)

    @property
    def env(self) -> dict[str, Any]:
        """Versions, device, commit."""
        return self._json(ENV)

    @property
    def parties(self) -> dict[str, Any]:
        """Names, samples, outliers, reference scores."""
        return self._json(PARTIES)

    @property
    def spec(self) -> dict[str, Any]:
        """What was asked for."""
        try:
            return tomllib.loads(self.text(SPEC))
        except (ValueError, RecursionError) as error:
            raise SettingError(f"{self.path / SPEC} cannot be read: {error}.") from error

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The evaluated rounds so far; a line that is still being written is left out."""
        path = self.path / ROUNDS
        if not path.exists():
            return []
        return parse_lines(self._bytes(ROUNDS), path)[0]

    def text(self, name: str) -> str:
        """Return the text of one of its files.

        Raises:
            SettingError: The file is absent, too large, not UTF-8, or may not be read.
        """
        try:
            return self._bytes(name).decode("utf-8")
        except ValueError as error:
            raise SettingError(f"{self.path / name} cannot be read: {error}.") from error

    def _bytes(self, name: str) -> bytes:
        path = self.path / name
        try:
            require_plain(path)
            size = path.stat().st_size
            if size > LARGEST:
                raise SettingError(f"{path} must have at most {LARGEST:,} bytes, got {size:,}.")
            return path.read_bytes()
        except OSError as error:
            raise SettingError(f"{path} cannot be read: {error.strerror or error}.") from error

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            found = json.loads(self._bytes(name))
        except (ValueError, RecursionError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(f"{path} cannot be read: {error}.") from error
        if not isinstance(found, dict):
            raise SettingError(f"{path} must hold a JSON object, got {type(found).__name__}.")
        return found


def require_plain(path: Path) -> None:
    """Require that a path is a plain file if it is there: reading a pipe would wait for ever.

    Raises:
        SettingError: It is a folder, a pipe or another special file.
        OSError: It cannot be looked at.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise SettingError(f"{path} cannot be read: it is not a plain file.")


def parse_lines(content: bytes, where: object) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of ``rounds.jsonl``, and how many bytes they take; ``where`` is for messages."""
    end = content.rfind(b"\n") + 1
    try:
        lines = [json.loads(line) for line in content[:end].splitlines()]
    except (ValueError, RecursionError) as error:
        raise SettingError(f"{where} is damaged: {error}.") from error
    if not all(isinstance(line, dict) and is_round_number(line.get("round")) for line in lines):
        raise SettingError(f"{where} is damaged: a line without a round.")
    return lines, end


def is_round_number(value: object) -> bool:
    """Whether this is a whole number that a round can have."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def is_run(path: Path) -> bool:
    """Whether this folder is a run folder."""
    return (path / STATUS).is_file()


def runs_in(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """The run folders in a folder, by name; the folder itself if it is one."""
    if is_run(folder):
        yield folder
        return
    if depth == 0:
        return
    with os.scandir(folder) as entries:
        below = sorted(e.path for e in entries if e.is_dir() and not e.name.startswith("."))
    for path in below:
        yield from runs_in(Path(path), depth - 1)


def run_folders(paths: list[Path]) -> list[RunFolder]:
    """All runs in these folders, each of which must hold one at least."""
    found: dict[Path, RunFolder] = {}
    for path in paths:
        inside = [RunFolder(run) for run in runs_in(path)] if path.is_dir() else []
        if not inside:
            raise SettingError(
                f"{path} must be a run folder or a folder of runs (with a {STATUS}), got "
                f"{'a folder without runs' if path.is_dir() else 'no such folder'}."
            )
        found |= {run.path.resolve(): run for run in inside}
    return list(found.values())


def party_file_name(party: str) -> str:
    """A party's file: its name, with what file systems do not like percent-encoded.

    >>> file_name("St. Mary's"), file_name("../a/b"), file_name("")
    ("St. Mary's.safetensors", '%2E.%2Fa%2Fb.safetensors', '%.safetensors')
    """
    safe = quote(party, safe=" !#$&'()+,-;=@[]^_`{}~") or "%"
    safe = f"%2E{safe[1:]}" if safe.startswith(".") else safe
    if len(safe) > LONGEST:
        safe = f"{safe[:LONGEST]}-{zlib.crc32(party.encode()):08x}"
    return f"{safe}.safetensors"
