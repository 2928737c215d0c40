"""Writes ``status.json``, the state and the progress of a run."""

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedplus.experiments.run_folder import FORMAT, STATUS
from fedplus.experiments.run_folder_files import timestamp, write_json


class Status:
    """The ``status.json`` of a run, replaced after every evaluation.

    Args:
        folder: The run folder.
        about: Entries that do not change, such as the label and the seed.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self._path = folder / STATUS
        self._start = time.monotonic()
        self._content: dict[str, Any] = {
            "format": FORMAT, "state": "running", **about,
            "mean": None, "worst": None, "global_mean": None,
            "started": timestamp(), "updated": timestamp(), "seconds": 0.0,
            "pid": os.getpid(), "host": platform.node(), "message": "",
        }  # fmt: skip

    def write(self, state: str, message: str = "") -> None:
        """Write the file with this state ("running", "finished", ...) and message."""
        seconds = round(time.monotonic() - self._start, 3)
        self._content |= {
            "state": state,
            "message": message,
            "updated": timestamp(),
            "seconds": seconds,
        }
        write_json(self._path, self._content)

    def record_evaluation(self, line: Mapping[str, Any], **more: Any) -> None:
        """Write the file with the scores of a new line of ``rounds.jsonl`` and ``more`` entries."""
        self._content |= {
            "round": line["round"], "mean": line["personal"]["mean"],
            "worst": line["personal"]["worst"], "global_mean": line["global"]["mean"], **more,
        }  # fmt: skip
        self.write("running")
