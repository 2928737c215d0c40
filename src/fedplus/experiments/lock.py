"""One process at a time in a folder: a run's, or a party's."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakValueDictionary

from fedplus.check import SettingError

try:
    import fcntl
except ImportError:  # Windows: there nobody is kept out.
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder; refused while another process does. A killed process holds nothing."""
    try:
        descriptor = _locked(folder)
    except BlockingIOError as error:
        raise SettingError(
            f"{folder} must be free, got a run that is still going on there. "
            "Wait for it, or stop it with Ctrl-C first."
        ) from error
    try:
        yield
    finally:
        _unlock(descriptor)


class PartyLock:
    """Holds the folder of a party until it is released or forgotten.

    The same party may take it again within its process, as after a round that failed.

    Args:
        folder: The party's folder, which must exist.
        node: The party's node.

    Raises:
        SettingError: Another party, or another process, holds it.
    """

    def __init__(self, folder: Path, node: int) -> None:
        self._node, self._process = node, os.getpid()
        self._descriptor: int | None = None
        key = folder.resolve()
        known = _held_here.get(key)
        if known is not None and (known._node, known._process) == (node, self._process):
            known.release()
        try:
            self._descriptor = _locked(folder)
        except BlockingIOError as error:
            raise SettingError(
                f"the party's folder must be used by one party at a time, got {folder}, which "
                "another one trains in now. Give each party a partition-id or a FEDPLUS_STATE of "
                "its own."
            ) from error
        _held_here[key] = self

    def release(self) -> None:
        """Let others in; nothing happens if it was released before."""
        descriptor, self._descriptor = self._descriptor, None
        if self._process == os.getpid():
            _unlock(descriptor)
        elif descriptor is not None:  # A fork's copy: the lock is its parent's.
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            self.release()


_held_here: "WeakValueDictionary[Path, PartyLock]" = WeakValueDictionary()
"""The locks of this process, by folder."""


def _locked(folder: Path) -> int | None:
    """Lock a folder and return its descriptor; None where the system has no such locks."""
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
