"""Where runs are: an id is the path of a run folder, relative to the folder of the board.

Links below the folder are never followed, so nothing outside it can be read.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fedplus.check import SettingError
from fedplus.experiments.run_folder import DEPTH, STATUS

ITSELF = "."
"""The id of the board's folder, where that is a run."""


class Stamp(NamedTuple):
    """What changes when a file does."""

    changed: int
    size: int
    inode: int


def stamp(path: str | Path) -> Stamp | None:
    """The stamp of a plain file; None where there is none, or a link."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Stamp(found.st_mtime_ns, found.st_size, found.st_ino)


def is_plain(path: Path) -> bool:
    """Whether there is a plain file at a path.

    Raises:
        SettingError: Something else is there: a link, a folder or a pipe.
    """
    found = stamp(path) is not None
    if not found and os.path.lexists(path):
        raise SettingError(f"{path} cannot be read: the board reads plain files only, not links.")
    return found


def is_searched(name: str) -> bool:
    """Whether a folder of this name is looked into."""
    return not name.startswith(".") and name.isprintable() and not set(name) & set("/\\:")


class NoRunError(SettingError):
    """There is no such run, or not any more."""


def split_run_id(run: str) -> list[str]:
    """An id's folder names, none of which leads out of the folder."""
    names = [] if run == ITSELF else run.split("/")
    if len(names) > DEPTH or not all(name and is_searched(name) for name in names):
        raise SettingError(f"A run's id must be a path inside the board's folder, got {run!r}.")
    return names


def find_run(folder: Path, run: str) -> Path:
    """The run folder of this id."""
    path = folder
    for name in split_run_id(run):
        path = path / name
        if path.is_symlink():
            raise NoRunError(f"{run!r} is a link, which the board does not follow.")
    if stamp(path / STATUS) is None:
        raise NoRunError(f"There is no run {run!r} (with a {STATUS}) in the board's folder.")
    return path


def find_runs(folder: str, run: str = "", depth: int = DEPTH) -> Iterator[tuple[str, Stamp]]:
    """The runs in a folder, by id, each with the stamp of its ``status.json``."""
    found = stamp(f"{folder}/{STATUS}")
    if found is not None:
        yield run or ITSELF, found
        return
    if depth == 0:
        return
    try:
        with os.scandir(folder) as entries:
            below = [
                e.name for e in entries if is_searched(e.name) and e.is_dir(follow_symlinks=False)
            ]
    except OSError:  # Removed meanwhile, or not ours to read.
        return
    for name in below:
        yield from find_runs(f"{folder}/{name}", f"{run}/{name}" if run else name, depth - 1)
