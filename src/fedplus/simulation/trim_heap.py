"""Return free memory to the operating system after a compilation.

XLA's compiler takes some hundred megabytes for a large model and frees them, but glibc's allocator
keeps free blocks that lie between used ones. Therefore a run compiles its program with a call of zero
rounds and trims the heap before the first round allocates memory. A slow evaluation is followed by a
trim, too.
"""

import ctypes
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from fedplus.simulation.engine import run_rounds
from fedplus.simulation.setup import Setup

SLOW_SECONDS = 1.0
"""A call that takes longer has probably compiled something; a trim adds little to its time."""


def compile_and_trim(setup: Setup, state: Any, t: int) -> Any:
    """Compile the program of a run, trim the heap, and return the state of round t unchanged."""
    trim_heap()
    now = np.int32(t)
    with trim_if_slow():
        state, _ = run_rounds(setup.plan, setup.inputs, setup.lane, state, now, now)
        jax.block_until_ready(state)  # type: ignore[no-untyped-call]
    return state


@contextmanager
def trim_if_slow() -> Iterator[None]:
    """Trim the heap after the ``with`` block if the block takes more than ``SLOW_SECONDS``."""
    begin = time.perf_counter()
    yield
    if time.perf_counter() - begin > SLOW_SECONDS:
        trim_heap()


def trim_heap() -> bool:
    """Return free heap memory to the system; the result is True if any was returned.

    Only glibc's ``malloc_trim`` does this; on other systems nothing happens.
    """
    if sys.platform != "linux":
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))
