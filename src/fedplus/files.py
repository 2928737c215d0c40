"""Writes files and folders atomically, by default readable by their owner only."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

PRIVATE, SHARED = 0o600, 0o666
"""File modes before the umask. ``PRIVATE``: models, keys and state; ``SHARED``: files for all users."""


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, accessible by their owner only."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)


def write_atomically(
    path: Path, content: bytes | Iterable[bytes | memoryview], mode: int = PRIVATE
) -> None:
    """Write a temporary file, sync it and rename it, so that readers see the old or the new file.

    Args:
        path: The file to write.
        content: Its bytes, or an iterable of pieces.
        mode: ``PRIVATE``, or ``SHARED`` for a file that other users may read.
    """
    temporary = _temporary_path(path)
    try:
        _write_and_sync(temporary, content, mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_folder_atomically(
    path: Path, files: Iterable[tuple[str, bytes]], mode: int = PRIVATE
) -> None:
    """Write a folder of files under a temporary name and rename it; an existing folder is replaced.

    Args:
        path: The folder to write.
        files: The relative path and the content of each file.
        mode: The mode of the files. With ``PRIVATE`` only the owner can access the folder, too.
    """
    temporary = _temporary_path(path)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        folder_mode = 0o700 if mode == PRIVATE else 0o777
        temporary.mkdir(folder_mode)
        for name, content in files:
            (temporary / name).parent.mkdir(folder_mode, parents=True, exist_ok=True)
            _write_and_sync(temporary / name, content, mode)
        _sync_folder(temporary)
        shutil.rmtree(path, ignore_errors=True)
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(path.parent)


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _write_and_sync(path: Path, content: bytes | Iterable[bytes | memoryview], mode: int) -> None:
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
