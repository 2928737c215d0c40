"""A line of the list: what the page shows of one ``status.json``."""

import os
import platform
import sys
from pathlib import Path
from typing import Any, NamedTuple

from fedplus.check import SettingError
from fedplus.experiments.run_folder import RunFolder


class Row(NamedTuple):
    """One run."""

    id: str
    label: str
    method: str = ""
    data: str = ""
    model: str = ""
    seed: float | None = None
    state: str = "damaged"
    round: float | None = None
    rounds: float | None = None
    parties: float | None = None
    mean: float | None = None
    worst: float | None = None
    score_name: str = "score"
    better: str = "higher"
    updated: str = ""
    message: str = ""

    def matches(self, words: list[str]) -> bool:
        """Whether all words occur in what is searched."""
        text = f"{self.label}\n{self.method}\n{self.data}\n{self.state}\n{self.id}".casefold()
        return all(word in text for word in words)


TEXT = ("label", "method", "data", "model", "state", "score_name", "better", "updated", "message")
NUMBERS = ("seed", "round", "rounds", "parties", "mean", "worst")


def finite_or_none(value: Any) -> float | None:
    """A finite number, or None."""
    fine = isinstance(value, int | float) and not isinstance(value, bool)
    return value if fine and abs(value) <= sys.float_info.max else None


def read_row(run: str, path: Path) -> tuple[Row, int | None]:
    """The run's line, and its process if it says to be running on this machine."""
    try:
        status = RunFolder(path).status
    except (SettingError, RecursionError) as error:
        return Row(run, label=run.rpartition("/")[2], message=str(error)), None
    given: dict[str, Any] = {key: finite_or_none(status.get(key)) for key in NUMBERS}
    given |= {key: status[key] for key in TEXT if isinstance(status.get(key), str)}
    row = Row(run, **({"label": run.rpartition("/")[2]} | given))
    pid = finite_or_none(status.get("pid"))
    here = row.state == "running" and status.get("host") == platform.node()
    return row, int(pid) if here and pid is not None and pid > 0 else None


def is_alive(pid: int) -> bool:
    """Whether a process of this machine goes on."""
    if os.name != "posix":  # Elsewhere os.kill would end it.
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
