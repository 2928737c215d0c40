"""Reads a row of the list of runs from a ``status.json``."""

import os
import platform
import sys
from pathlib import Path
from typing import Any, NamedTuple

from fedplus.check import SettingError
from fedplus.experiments.run_folder import RunFolder


class Row(NamedTuple):
    """A run in the list; None for unknown numbers."""

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
        """Return whether all words occur in the label, method, data, state or id."""
        text = f"{self.label}\n{self.method}\n{self.data}\n{self.state}\n{self.id}".casefold()
        return all(word in text for word in words)


TEXT = ("label", "method", "data", "model", "state", "score_name", "better", "updated", "message")
NUMBERS = ("seed", "round", "rounds", "parties", "mean", "worst")


def finite_or_none(value: Any) -> float | None:
    """Return the value if it is a finite number, otherwise None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) <= sys.float_info.max else None


def read_row(run: str, path: Path) -> tuple[Row, int | None]:
    """Read the row of a run, and its process id if it is running on this machine.

    Args:
        run: Id of the run.
        path: The run folder.

    Returns:
        The row and the process id. If ``status.json`` is damaged, the row says so.
    """
    try:
        status = RunFolder(path).status
    except (SettingError, RecursionError) as error:
        return Row(run, label=run.rpartition("/")[2], message=str(error)), None
    values: dict[str, Any] = {key: finite_or_none(status.get(key)) for key in NUMBERS}
    values |= {key: status[key] for key in TEXT if isinstance(status.get(key), str)}
    row = Row(run, **({"label": run.rpartition("/")[2]} | values))
    pid = finite_or_none(status.get("pid"))
    is_local = row.state == "running" and status.get("host") == platform.node()
    return row, int(pid) if is_local and pid is not None and pid > 0 else None


def is_alive(pid: int) -> bool:
    """Return whether a process of this machine still exists."""
    if os.name != "posix":  # On other systems os.kill would end the process.
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
