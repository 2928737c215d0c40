"""One process at a time in a run folder."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from fedplus._check import SettingError

try:
    import fcntl
except ImportError:  # Windows: there nobody is kept out.
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the folder; refused while another process does. A killed process holds nothing."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingError(
                f"{folder} must be free, got a run that is still going on there. "
                "Wait for it, or stop it with Ctrl-C first."
            ) from error
        yield
    finally:
        os.close(descriptor)
