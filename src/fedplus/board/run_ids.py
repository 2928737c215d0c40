"""Finds runs by id: the path of the run folder, relative to the board's folder.

Symbolic links inside the folder are not followed, so nothing outside it can be read.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fedplus.check import SettingError
from fedplus.experiments.run_folder import SEARCH_DEPTH, STATUS

ROOT_RUN = "."
"""Id of the board's folder, if it is a run folder itself."""


class Stamp(NamedTuple):
    """The modification time, size and inode of a file, which change when the file is replaced."""

    modified: int
    size: int
    inode: int


def file_stamp(path: str | Path) -> Stamp | None:
    """Return the stamp of a regular file; None if there is none, or if it is a link."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Stamp(status.st_mtime_ns, status.st_size, status.st_ino)


def is_regular_file(path: Path) -> bool:
    """Return whether a path is a regular file; False if it does not exist.

    Raises:
        SettingError: The path is a link, a folder or a pipe.
    """
    is_file = file_stamp(path) is not None
    if not is_file and os.path.lexists(path):
        raise SettingError(f"{path} cannot be read: the board reads plain files only, not links.")
    return is_file


def is_searchable(name: str) -> bool:
    """Return whether folders of this name are searched for runs."""
    return not name.startswith(".") and name.isprintable() and not set(name) & set("/\\:")


class NoRunError(SettingError):
    """There is no run with the requested id."""


def split_run_id(run: str) -> list[str]:
    """Return the folder names in an id.

    Raises:
        SettingError: The id leads out of the board's folder, or is not valid.
    """
    names = [] if run == ROOT_RUN else run.split("/")
    if len(names) > SEARCH_DEPTH or not all(name and is_searchable(name) for name in names):
        raise SettingError(f"A run's id must be a path inside the board's folder, got {run!r}.")
    return names


def find_run(folder: Path, run: str) -> Path:
    """Return the run folder with this id.

    Raises:
        NoRunError: There is no such run.
        SettingError: The id is not valid.
    """
    path = folder
    for name in split_run_id(run):
        path = path / name
        if path.is_symlink():
            raise NoRunError(f"{run!r} is a link, which the board does not follow.")
    if file_stamp(path / STATUS) is None:
        raise NoRunError(f"There is no run {run!r} (with a {STATUS}) in the board's folder.")
    return path


def find_runs(folder: str, run: str = "", depth: int = SEARCH_DEPTH) -> Iterator[tuple[str, Stamp]]:
    """Yield the id of each run in a folder, and the stamp of its ``status.json``."""
    stamp = file_stamp(f"{folder}/{STATUS}")
    if stamp is not None:
        yield run or ROOT_RUN, stamp
        return
    if depth == 0:
        return
    try:
        with os.scandir(folder) as entries:
            names = [
                entry.name
                for entry in entries
                if is_searchable(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:  # The folder was removed in the meantime, or has no read permission.
        return
    for name in names:
        yield from find_runs(f"{folder}/{name}", f"{run}/{name}" if run else name, depth - 1)
