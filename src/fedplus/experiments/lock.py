"""Locks a folder, so that only one process writes into a run folder or a party's folder."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakValueDictionary

from fedplus.check import SettingError

try:
    import fcntl
except ImportError:  # Windows has no flock: folders are not locked there.
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a run folder within a ``with`` block. The lock of a killed process is released.

    Raises:
        SettingError: Another process has locked the folder.
    """
    try:
        descriptor = _lock(folder)
    except BlockingIOError as error:
        raise SettingError(
            f"{folder} must be free, got a folder that another run is using. "
            "Wait for that run, or stop it with Ctrl-C first."
        ) from error
    try:
        yield
    finally:
        _unlock(descriptor)


class PartyLock:
    """The lock of a party's folder, held until it is released or garbage-collected.

    The same party may lock its folder again in the same process, for example after a failed round.

    Args:
        folder: The party's folder, which must exist.
        node: The party's node id.

    Raises:
        SettingError: Another party or another process has locked the folder.
    """

    def __init__(self, folder: Path, node: int) -> None:
        self._node, self._process = node, os.getpid()
        self._descriptor: int | None = None
        key = folder.resolve()
        previous = _locks.get(key)
        if previous is not None and (previous._node, previous._process) == (node, self._process):
            previous.release()
        try:
            self._descriptor = _lock(folder)
        except BlockingIOError as error:
            raise SettingError(
                f"the party's folder must be used by one party at a time, got {folder}, which "
                "another one trains in now. Give each party a partition-id or a FEDPLUS_STATE of "
                "its own."
            ) from error
        _locks[key] = self

    def release(self) -> None:
        """Release the lock; calling this again has no effect."""
        descriptor, self._descriptor = self._descriptor, None
        if self._process == os.getpid():
            _unlock(descriptor)
        elif descriptor is not None:  # In a forked process: the lock belongs to the parent.
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            self.release()


_locks: "WeakValueDictionary[Path, PartyLock]" = WeakValueDictionary()
"""The party locks of this process, by folder."""


def _lock(folder: Path) -> int | None:
    """Lock a folder and return its file descriptor, or None if the system has no such locks."""
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
