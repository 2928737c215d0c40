"""Handles Ctrl-C as a request to stop, which a run obeys after the current chunk of rounds."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class Interrupt:
    """Records whether the user has pressed Ctrl-C."""

    is_requested = False


@contextlib.contextmanager
def catch_interrupt() -> Iterator[Interrupt]:
    """Record the first Ctrl-C instead of raising; the second one raises ``KeyboardInterrupt``.

    Outside the main thread, where Python does not allow signal handlers, nothing is caught.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    previous = signal.getsignal(signal.SIGINT)

    def record(number: int, frame: Any) -> None:
        interrupt.is_requested = True
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, record)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, previous)
