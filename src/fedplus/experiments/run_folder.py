"""Reads run folders, of runs that are finished, running or stopped.

docs/runs.md describes the files. ``writer`` writes them. To resume a stopped run, ``runner`` uses
``checkpoint/`` (the training state), ``rounds.jsonl`` (cut back to the checkpoint's round) and
``parties.json`` (the reference scores).
"""

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
NEW_PARTIES, METRICS = "new_parties.json", "metrics.json"
ROUNDS, CHECKPOINT, MODELS, REPORT = "rounds.jsonl", "checkpoint", "models", "report.html"
GLOBAL = "global.safetensors"
MODEL, MODEL_ARRAYS, MODEL_CARD = "model.json", "model.safetensors", "model-card.md"
SEARCH_DEPTH = 4
"""How many levels of sub-folders are searched for runs."""
MAX_BYTES = 2**30
"""Largest file that is read at once, and longest line of ``rounds.jsonl``."""
MAX_NAME = 200
"""Longest file name of a party's model, in characters, without its ending."""


class RunFolder(NamedTuple):
    """The files of one run. Each property reads its file again.

    Raises:
        SettingError: A file is absent or damaged, when a property reads it.
    """

    path: Path

    @property
    def status(self) -> dict[str, Any]:
        """Return ``status.json``: the state, the current round and the latest mean scores."""
        return self._json(STATUS)

    @property
    def env(self) -> dict[str, Any]:
        """Return ``env.json``: versions, device and commit."""
        return self._json(ENV)

    @property
    def parties(self) -> dict[str, Any]:
        """Return ``parties.json``: names, numbers of samples, outliers and reference scores."""
        return self._json(PARTIES)

    @property
    def model(self) -> dict[str, Any]:
        """Return ``model.json``: the model, the classes and the preprocessing of the inputs."""
        return self._json(MODEL)

    @property
    def metrics(self) -> dict[str, Any]:
        """Return ``metrics.json``: metrics of each party's final model."""
        return self._json(METRICS)

    @property
    def new_parties(self) -> dict[str, Any]:
        """Return ``new_parties.json``: the scores of parties that joined after the training."""
        return self._json(NEW_PARTIES)

    @property
    def spec(self) -> dict[str, Any]:
        """Return ``spec.toml``: the specification of the run."""
        try:
            return tomllib.loads(self.text(SPEC))
        except (ValueError, RecursionError) as error:
            raise SettingError(f"{self.path / SPEC} cannot be read: {error}.") from error

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of ``rounds.jsonl``, one per evaluated round; skip an unfinished line."""
        path = self.path / ROUNDS
        if not path.exists():
            return []
        return parse_lines(self._bytes(ROUNDS), path)[0]

    def text(self, name: str) -> str:
        """Return the text of the file ``name`` in the folder.

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
            require_regular_file(path)
            size = path.stat().st_size
            if size > MAX_BYTES:
                raise SettingError(f"{path} must have at most {MAX_BYTES:,} bytes, got {size:,}.")
            return path.read_bytes()
        except OSError as error:
            raise SettingError(f"{path} cannot be read: {error.strerror or error}.") from error

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            content = json.loads(self._bytes(name))
        except (ValueError, RecursionError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(f"{path} cannot be read: {error}.") from error
        if not isinstance(content, dict):
            raise SettingError(f"{path} must hold a JSON object, got {type(content).__name__}.")
        return content


def require_regular_file(path: Path) -> None:
    """Require that a path is a regular file, because reading a pipe would block for ever.

    Raises:
        SettingError: The path is a folder, a pipe or another special file.
        OSError: The path does not exist or is not accessible.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise SettingError(f"{path} cannot be read: it is not a plain file.")


def parse_lines(content: bytes, where: object) -> tuple[list[dict[str, Any]], int]:
    """Parse the complete lines of ``rounds.jsonl``.

    Args:
        content: Bytes of the file. An unfinished last line is ignored.
        where: The file, for error messages.

    Returns:
        The lines, and the number of bytes that they take.

    Raises:
        SettingError: A line is not a JSON object with a round.
    """
    end = content.rfind(b"\n") + 1
    try:
        lines = [json.loads(line) for line in content[:end].splitlines()]
    except (ValueError, RecursionError) as error:
        raise SettingError(f"{where} is damaged: {error}.") from error
    if not all(isinstance(line, dict) and is_round_number(line.get("round")) for line in lines):
        raise SettingError(f"{where} is damaged: a line has no round.")
    return lines, end


def is_round_number(value: object) -> bool:
    """Return whether a JSON value is a valid number of a round."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def is_run(path: Path) -> bool:
    """Return whether a folder is a run folder: it has a ``status.json``."""
    return (path / STATUS).is_file()


def iter_run_paths(folder: Path, depth: int = SEARCH_DEPTH) -> Iterator[Path]:
    """Yield the run folders inside a folder, sorted by name, or the folder itself if it is one."""
    if is_run(folder):
        yield folder
        return
    if depth == 0:
        return
    with os.scandir(folder) as entries:
        subfolders = sorted(e.path for e in entries if e.is_dir() and not e.name.startswith("."))
    for path in subfolders:
        yield from iter_run_paths(Path(path), depth - 1)


def find_run_folders(paths: list[Path]) -> list[RunFolder]:
    """Return all runs inside these folders, each run once.

    Raises:
        SettingError: A folder does not exist or contains no run.
    """
    runs: dict[Path, RunFolder] = {}
    for path in paths:
        runs_here = [RunFolder(run) for run in iter_run_paths(path)] if path.is_dir() else []
        if not runs_here:
            raise SettingError(
                f"{path} must be a run folder or a folder of runs (with a {STATUS}), got "
                f"{'a folder without runs' if path.is_dir() else 'no such folder'}."
            )
        runs |= {run.path.resolve(): run for run in runs_here}
    return list(runs.values())


def party_file_name(party: str) -> str:
    """Return the name of a party's model file; unsuitable characters are percent-encoded.

    >>> party_file_name("St. Mary's"), party_file_name("../a/b"), party_file_name("")
    ("St. Mary's.safetensors", '%2E.%2Fa%2Fb.safetensors', '%.safetensors')
    """
    safe = quote(party, safe=" !#$&'()+,-;=@[]^_`{}~") or "%"
    safe = f"%2E{safe[1:]}" if safe.startswith(".") else safe
    if len(safe) > MAX_NAME:
        safe = f"{safe[:MAX_NAME]}-{zlib.crc32(party.encode()):08x}"
    return f"{safe}.safetensors"
