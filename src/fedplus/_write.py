"""How anything reaches the disk."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write to a temporary file, sync and rename: a reader sees the old file or the new one."""
    temporary = _temporary(path)
    try:
        _write_synced(temporary, content, mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_folder_atomically(path: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """The same for a folder of files, in the place of one that may be there already."""
    temporary = _temporary(path)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        for name, content in files:
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            _write_synced(temporary / name, content)
        _sync_folder(temporary)
        shutil.rmtree(path, ignore_errors=True)
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(path.parent)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _write_synced(path: Path, content: bytes, mode: int = 0o666) -> None:
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
