"""The folder in which a server or a party stores its state unless another folder is given."""

import os
from pathlib import Path


def state_folder() -> Path:
    """Return the folder for the models of this machine: $FEDPLUS_STATE or ~/.local/state/fedplus."""
    folder = os.environ.get("FEDPLUS_STATE")
    return Path(folder) if folder else Path.home() / ".local" / "state" / "fedplus"
