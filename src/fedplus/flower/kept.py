"""What the server and the parties keep on disk, read after any accident."""

import os
from logging import WARNING
from pathlib import Path

from flwr.common import log

from fedplus._check import SettingError
from fedplus.simulation.checkpoint import Checkpoint, load, saved_in


def last_good(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole; a damaged one gives way to the one before."""
    for path in reversed(saved_in(folder)):
        try:
            return load(path)
        except SettingError as error:
            log(WARNING, "%s", error)
    return None


def state_folder() -> Path:
    """Where a machine of a federation keeps its models: $FEDPLUS_STATE, else ~/.local/state/fedplus."""
    named = os.environ.get("FEDPLUS_STATE")
    return Path(named) if named else Path.home() / ".local" / "state" / "fedplus"
