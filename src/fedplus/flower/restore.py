"""What the server and the parties keep on disk, read after any accident."""

import os
from logging import WARNING
from pathlib import Path

from flwr.common import log

from fedplus._checkpoint import Checkpoint, checkpoints_in, load, round_of_file
from fedplus.check import SettingError, require


def latest_intact_checkpoint(folder: Path, before: int | None = None) -> Checkpoint | None:
    """The newest checkpoint that is whole; a damaged one gives way to the one before.

    Args:
        folder: With the checkpoints.
        before: Rather one of a round before this one; any other only if there is none such.

    Raises:
        SettingError: There are some, and all are damaged or of a format that is not known.
    """
    paths = checkpoints_in(folder)
    earlier = [p for p in paths if before is None or round_of_file(p) < before]
    for path in (*reversed(earlier), *(p for p in paths if p not in earlier)):
        try:
            return load(path)
        except SettingError as error:
            log(WARNING, "%s", error)
    require(
        not paths, "folder", f"{folder} with {len(paths)} that cannot be read",
        "one with a whole checkpoint", "Restore it from a backup, or move it away to begin anew.",
    )  # fmt: skip
    return None


def state_folder() -> Path:
    """Where a machine of a federation keeps its models: $FEDPLUS_STATE, else ~/.local/state/fedplus."""
    named = os.environ.get("FEDPLUS_STATE")
    return Path(named) if named else Path.home() / ".local" / "state" / "fedplus"
