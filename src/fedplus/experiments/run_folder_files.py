"""Functions that write the JSON files of a run folder."""

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedplus.check import SettingError
from fedplus.experiments.run_folder import parse_lines
from fedplus.files import write_atomically


def append_round(path: Path, line: Mapping[str, Any]) -> None:
    """Append a line to ``rounds.jsonl``; if that fails, the file stays as it was."""
    size = path.stat().st_size
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        os.truncate(path, size)
        raise


def truncate_rounds(path: Path, done: int) -> list[dict[str, Any]]:
    """Remove the lines of ``rounds.jsonl`` after round ``done``, as a run that is resumed needs it.

    If the file is damaged, all its lines are removed. The simulation then reports the rounds before
    the checkpoint again, so that they are written again.

    Args:
        path: The file. It is created if it does not exist.
        done: Number of rounds that the checkpoint contains.

    Returns:
        The remaining lines.
    """
    try:
        content = path.read_bytes()
        lines = parse_lines(content, path)[0]
    except (FileNotFoundError, SettingError):
        content, lines = b"", []
    if not all(isinstance(line, dict) and isinstance(line.get("round"), int) for line in lines):
        lines = []
    remaining = [line for line in lines if line["round"] <= done]
    write_atomically(path, b"".join(content.splitlines(keepends=True)[: len(remaining)]))
    return remaining


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an indented JSON file."""
    write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False).encode())


def timestamp() -> str:
    """Return the current time in UTC, as ISO 8601, e.g. "2026-11-15T13:30:00+00:00"."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
