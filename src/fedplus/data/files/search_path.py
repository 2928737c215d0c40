"""The folders that are searched for data files."""

import os
from pathlib import Path

from fedplus.data.files.source import DataError

VARIABLE = "FEDPLUS_DATA"
OFFLINE = "FEDPLUS_OFFLINE"


def user_folder() -> Path | None:
    """The folder that the user says has the files; nothing is ever written there."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(
            f"{VARIABLE} must be a folder that is there, got {named!r}. Unset it to download into "
            f"{cache_folder()}."
        )
    return folder


def cache_folder() -> Path:
    """The folder that downloads go to: the user's cache folder."""
    import pooch

    return Path(pooch.os_cache("fedplus"))


def search_folders() -> list[Path]:
    """In the order in which they are searched."""
    first = user_folder()
    return [cache_folder()] if first is None else [first, cache_folder()]


def is_offline() -> bool:
    """Whether the user wants no network."""
    return os.environ.get(OFFLINE, "") not in ("", "0")
