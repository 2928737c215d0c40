"""Finds the checkpoint from which a server or a party restores its state."""

from logging import WARNING
from pathlib import Path

from flwr.common import log

from fedplus._checkpoint_file import Checkpoint, list_checkpoints, load, round_of_file
from fedplus.check import SettingError


def latest_intact_checkpoint(folder: Path, before: int | None = None) -> Checkpoint | None:
    """Return the newest checkpoint that is not damaged.

    Args:
        folder: The folder of checkpoints.
        before: A round. Checkpoints of earlier rounds are preferred; others are used only if there
            is no earlier one.

    Returns:
        The checkpoint, or None if the folder has none.

    Raises:
        SettingError: All checkpoints of the folder are damaged or have an unknown format.
    """
    paths = list_checkpoints(folder)
    earlier = [p for p in paths if before is None or round_of_file(p) < before]
    for path in (*reversed(earlier), *(p for p in paths if p not in earlier)):
        try:
            return load(path)
        except SettingError as error:
            log(WARNING, "%s", error)
    if paths:
        which = "The checkpoint" if len(paths) == 1 else f"None of the {len(paths)} checkpoints"
        raise SettingError(
            f"{which} in {folder} {'cannot' if len(paths) == 1 else 'can'} be read. "
            "Restore one from a backup, or move the folder away to start again."
        )
    return None
