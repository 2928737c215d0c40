"""How far a run is: ``status.json``, replaced while it goes on."""

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedplus.experiments.files import timestamp, write_json
from fedplus.experiments.run_folder import FORMAT, STATUS


class Status:
    """What the list of runs says of one."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Begin; ``about`` is what does not change."""
        self._path = folder / STATUS
        self._begun = time.monotonic()
        self._told: dict[str, Any] = {
            "format": FORMAT, "state": "running", **about,
            "mean": None, "worst": None, "global_mean": None,
            "started": timestamp(), "updated": timestamp(), "seconds": 0.0,
            "pid": os.getpid(), "host": platform.node(), "message": "",
        }  # fmt: skip

    def tell(self, state: str, message: str = "") -> None:
        """Replace the file."""
        seconds = round(time.monotonic() - self._begun, 3)
        self._told |= {
            "state": state,
            "message": message,
            "updated": timestamp(),
            "seconds": seconds,
        }
        write_json(self._path, self._told)

    def evaluated(self, line: Mapping[str, Any], **more: Any) -> None:
        """Another line of ``rounds.jsonl`` is there."""
        self._told |= {
            "round": line["round"], "mean": line["personal"]["mean"],
            "worst": line["personal"]["worst"], "global_mean": line["global"]["mean"], **more,
        }  # fmt: skip
        self.tell("running")
