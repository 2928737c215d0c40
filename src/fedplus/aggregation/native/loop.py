"""How loops over NumPy arrays become machine code: by Numba, for finite numbers of 32 bits."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np

Float: TypeAlias = np.float32
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Int: TypeAlias = np.int32
Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
Loop = TypeVar("Loop", bound=Callable[..., Any])

HOW: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "nnan", "nsz", "arcp", "contract"},  # Sums in vector registers.
}

ZERO, HALF, ONE, TWO, FOUR = (np.float32(x) for x in (0, 0.5, 1, 2, 4))
INFINITY = np.float32(np.inf)
EPSILON, TINY = np.finfo(np.float32).eps, np.finfo(np.float32).tiny

in_threads: Any = numba.prange
"""``range``, of which each thread takes a part."""


def loop(function: Loop) -> Loop:
    """Compile a function for one thread."""
    compiled: Loop = kept(numba.njit, function, **HOW)
    return compiled


def loop_in_threads(function: Loop) -> Loop:
    """Compile a function that goes ``in_threads``."""
    compiled: Loop = kept(numba.njit, function, **HOW, parallel=True)
    return compiled


def kept(compiler: Any, function: Any, *args: Any, **how: Any) -> Any:
    """Compile, and keep the result on disk for the next process, where there is a place for it."""
    try:
        return compiler(*args, cache=True, **how)(function)
    except RuntimeError:  # There is none: each process compiles.
        return compiler(*args, **how)(function)


@loop_in_threads
def in_turn(count: int) -> int:
    """The sum of the first so many numbers, to see whether there are threads."""
    total = 0
    for i in in_threads(count):
        total += i
    return total
