"""How loops over NumPy arrays become machine code: by Numba, for finite numbers of 32 bits."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np

from fedplus.aggregation.native.kept import folder

Float: TypeAlias = np.float32
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.int8]]
Doubles: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Int: TypeAlias = np.int32
Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
Loop = TypeVar("Loop", bound=Callable[..., Any])

IN_ANY_ORDER = {"reassoc", "nsz", "arcp", "contract"}
"""Sums in vector registers."""
HOW: dict[str, Any] = {
    "nogil": True,
    "no_cfunc_wrapper": True,
    "error_model": "numpy",
    "fastmath": {*IN_ANY_ORDER, "nnan"},
}

THREADS = {
    name: name == "prange"
    for name in (
        "comprehension", "fusion", "inplace_binop", "numpy", "prange", "reduction", "setitem",
        "stencil",
    )
}  # fmt: skip
"""Threads for ``in_threads`` alone. An assignment to an array is not worth waking any."""

ZERO, HALF, ONE, TWO, FOUR = (np.float32(x) for x in (0, 0.5, 1, 2, 4))
INFINITY = np.float32(np.inf)
EPSILON, TINY = np.finfo(np.float32).eps, np.finfo(np.float32).tiny

Index: Any = np.int64
"""Of a row or a column: one kind of number for all, lest a loop be compiled for each."""

in_threads: Any = numba.prange
"""``range``, of which each thread takes a part."""


def loop(function: Loop) -> Loop:
    """Compile a function for one thread."""
    return kept(function, **HOW)


def inlined(function: Loop) -> Loop:
    """A function that is read with the loop that calls it; else it would be compiled there once more.

    Numbers may be what they may be in that loop.
    """
    made: Loop = numba.njit(inline="always", **HOW)(function)
    return made


def loop_of_any(function: Loop) -> Loop:
    """Compile a function for one thread whose numbers may not be finite."""
    return kept(function, **{**HOW, "fastmath": IN_ANY_ORDER})


def loop_in_threads(function: Loop) -> Loop:
    """Compile a function that goes ``in_threads``."""
    return kept(function, **HOW, parallel=THREADS)


def kept(function: Loop, **how: Any) -> Loop:
    """Compile, and keep the result on disk for the next process, where there is a place for it."""
    config: Any = numba.config
    before = config.CACHE_DIR
    try:
        config.CACHE_DIR = str(folder())
        compiled: Loop = numba.njit(cache=True, **how)(function)
    except RuntimeError:  # There is none: each process compiles.
        compiled = numba.njit(**how)(function)
    finally:
        config.CACHE_DIR = before
    return compiled


@inlined
def piece(size: int, t: int, threads: int) -> tuple[int, int]:
    """Of so many things in a row, those of thread t: from which on, and up to which."""
    return t * size // threads, (t + 1) * size // threads


@loop
def put(x: Floats, to: Floats) -> None:
    """Copy a model. Numba takes seconds to compile an assignment to a row of a matrix."""
    for j in range(len(to)):
        to[j] = x[j]


@inlined
def clear(x: Floats) -> None:
    """Make a vector 0; an assignment would take Numba longer to compile."""
    for j in range(len(x)):
        x[j] = ZERO


@loop_in_threads
def in_turn(count: int) -> int:
    """The sum of the first so many numbers, to see whether there are threads."""
    total = 0
    for i in in_threads(count):
        total += i
    return total
