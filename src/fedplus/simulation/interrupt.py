"""Ctrl-C as a wish, granted between two chunks of rounds, when the state is whole."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class Interrupt:
    """Whether a person has asked to stop."""

    asked = False


@contextlib.contextmanager
def catch_interrupt() -> Iterator[Interrupt]:
    """The first Ctrl-C is noted, the second is as ever. Outside the main thread all are as ever."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        interrupt.asked = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
