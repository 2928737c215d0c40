"""What compiling leaves behind, handed back to the system.

XLA's compiler takes some hundred megabytes for a large model and frees them, but glibc's allocator
keeps what is free between what is not. So a program is compiled by a call that plays no round, and what
is free then goes back before the first round wants memory of its own; so does what evaluations leave.
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

LONG = 1.0
"""Seconds. What takes longer has compiled something, or is not slowed by looking for free memory."""


def memory_of_compiled(setup: Setup, state: Any, t: int) -> Any:
    """The state at round t as it is, when the program of a run is compiled."""
    trim_memory()
    now = np.int32(t)
    with run_and_trim():
        state, _ = run_rounds(setup.plan, setup.inputs, setup.lane, state, now, now)
        jax.block_until_ready(state)  # type: ignore[no-untyped-call]
    return state


@contextmanager
def run_and_trim() -> Iterator[None]:
    """Do something, and hand back what it leaves behind if it took long."""
    begun = time.perf_counter()
    yield
    if time.perf_counter() - begun > LONG:
        trim_memory()


def trim_memory() -> bool:
    """What is free; whether there was any, and an allocator that can."""
    if sys.platform != "linux":
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))
