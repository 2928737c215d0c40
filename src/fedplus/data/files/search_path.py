"""The folders that are searched for data files."""

import os
import sys
from pathlib import Path

from fedplus.data.files.source import DataError

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
    """Return the folder for downloads and compiled programs, in the user's cache folder.

    It is the folder that pooch would choose. It is computed here because pooch is an extra.
    """
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "fedplus" / "fedplus" / "Cache"
    if chosen := os.environ.get("XDG_CACHE_HOME", "").strip():
        return Path(chosen) / "fedplus"
    usual = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / usual / "fedplus"


def search_folders() -> list[Path]:
    """Return the folders in the order in which they are searched."""
    first = user_folder()
    return [cache_folder()] if first is None else [first, cache_folder()]


def is_offline() -> bool:
    """Return True if ``FEDPLUS_OFFLINE`` forbids downloads."""
    return os.environ.get(OFFLINE, "") not in ("", "0")
