"""What the server and the parties keep on disk, read after any accident."""

from logging import WARNING
from pathlib import Path

from flwr.common import log

from fedplus._check import SettingError
from fedplus.simulation.checkpoint import Checkpoint, load, round_of, saved_in


def last_good(folder: Path, before: int | None = None) -> Checkpoint | None:
    """The newest checkpoint that is whole; a damaged one gives way to the one before.

    Args:
        folder: With the checkpoints.
        before: Rather one of a round before this one; any other only if there is none such.
    """
    paths = saved_in(folder)
    earlier = [p for p in paths if before is None or round_of(p) < before]
    for path in (*reversed(earlier), *(p for p in paths if p not in earlier)):
        try:
            return load(path)
        except SettingError as error:
            log(WARNING, "%s", error)
    return None
