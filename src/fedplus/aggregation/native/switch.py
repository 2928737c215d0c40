"""Whether a pass is one of these loops, and how many threads it may take."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np

from fedplus._types import Matrix

OFF = "off"
_THREADS: ContextVar[int] = ContextVar("threads", default=1)


def usable(w_local: Matrix) -> bool:
    """Whether these loops can pass over this W, in the program that is being traced."""
    here = w_local.dtype == np.float32 and jax.default_backend() == "cpu"
    return here and _THREADS.get() > 0 and installed()


@contextmanager
def threads(number: int) -> Iterator[None]:
    """While a program is traced: each loop takes so many threads. With 0 there are no such loops."""
    token = _THREADS.set(number)
    try:
        yield
    finally:
        _THREADS.reset(token)


def threads_now() -> int:
    """How many threads a loop takes in the program that is being traced."""
    return _THREADS.get()


@cache
def installed() -> bool:
    """Whether there is Numba, and nobody has said not to use it."""
    return os.environ.get("FEDPLUS_NUMBA") != OFF and find_spec("numba") is not None


@cache
def most_threads() -> int:
    """How many threads a loop may take where nothing else goes on; 1 if Numba's are not for us."""
    if not installed():
        return 1
    import numba as typed_numba

    from fedplus.aggregation.native.loop import in_turn

    numba: Any = typed_numba
    try:
        numba.threading_layer()
    except ValueError:  # None has begun. XLA may call from any thread.
        numba.config.THREADING_LAYER = "threadsafe"
    try:
        in_turn(2)
    except ValueError:  # There is none of that kind.
        return 1
    return int(numba.get_num_threads()) if numba.threading_layer() != "workqueue" else 1


@cache
def register(name: str) -> str:
    """Make a loop known to XLA, and say under which name."""
    from fedplus.aggregation.native.handlers import handler

    ffi: Any = jax.ffi
    ffi.register_ffi_target(f"fedplus_{name}", ffi.pycapsule(handler(name).ctypes), platform="cpu")
    return f"fedplus_{name}"
