"""How the files of a run folder are written."""

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
    """To ``rounds.jsonl``: all of the line, or nothing."""
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
    """Keep the lines of ``rounds.jsonl`` that a checkpoint of so many rounds vouches for.

    None if they are damaged: all that were lost are written again.
    """
    try:
        content = path.read_bytes()
        lines = parse_lines(content, path)[0]
    except (FileNotFoundError, SettingError):
        content, lines = b"", []
    if not all(isinstance(line, dict) and isinstance(line.get("round"), int) for line in lines):
        lines = []
    kept = [line for line in lines if line["round"] <= done]
    written = content.splitlines(keepends=True)[: len(kept)]
    write_atomically(path, b"".join(written))
    return kept


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """A file for people and programs."""
    write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False).encode())


def timestamp() -> str:
    """The time, for ``status.json``."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
