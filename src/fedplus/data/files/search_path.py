"""The folders that are searched for data files."""

import os
from pathlib import Path

from fedplus.data.files.source import DataError
from fedplus.extras import import_extra

VARIABLE = "FEDPLUS_DATA"
OFFLINE = "FEDPLUS_OFFLINE"


def user_folder() -> Path | None:
    """Return the folder that ``FEDPLUS_DATA`` names, or None; nothing is ever written there.

    Raises:
        DataError: The folder does not exist.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise DataError(
            f"{VARIABLE} must be an existing folder, got {name!r}. Unset it to download into "
            f"{cache_folder()}."
        )
    return folder


def cache_folder() -> Path:
    """Return the folder for downloads, in the user's cache folder."""
    pooch = import_extra("pooch", "data", "the cache of data files")
    return Path(pooch.os_cache("fedplus"))


def search_folders() -> list[Path]:
    """Return the folders in the order in which they are searched."""
    first = user_folder()
    return [cache_folder()] if first is None else [first, cache_folder()]


def is_offline() -> bool:
    """Return True if ``FEDPLUS_OFFLINE`` forbids downloads."""
    return os.environ.get(OFFLINE, "") not in ("", "0")
