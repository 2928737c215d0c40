"""Whether a pass is one of these loops, and how many threads it may take."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from importlib.util import find_spec
from math import inf
from typing import Any, NamedTuple, TypeVar, cast

import jax
import numpy as np

from fedplus._types import Matrix

OFF = "off"
Function = TypeVar("Function", bound=Callable[..., Any])


class Use(NamedTuple):
    """Of these loops, in the program that is being traced."""

    least: float = 2**20
    """Entries of W from which on they are used. For less it is not worth importing Numba."""
    threads: int = 1
    """How many each takes."""


_USUAL = Use()
_USE: ContextVar[Use] = ContextVar("use", default=_USUAL)
_LIES: ContextVar[tuple[Matrix, Matrix, int] | None] = ContextVar("lies", default=None)


def usable(w_local: Matrix) -> bool:
    """Whether these loops can pass over this W, in the program that is being traced."""
    here = w_local.dtype == np.float32 and jax.default_backend() == "cpu"
    return here and w_local.size >= _USE.get().least and installed()


@contextmanager
def using(least: float, threads: int = 1) -> Iterator[None]:
    """While a program is traced: how these loops are used in it."""
    token = _USE.set(Use(least, threads))
    try:
        yield
    finally:
        _USE.reset(token)


@contextmanager
def lying_in(block: Matrix, w_local: Matrix, column: int | None) -> Iterator[None]:
    """While a block of W's columns is aggregated: from which of them on it lies there in one piece.

    Then the loops read it there, and XLA need not copy it. None: it does not.
    """
    token = _LIES.set((block, w_local, column) if column is not None else None)
    try:
        yield
    finally:
        _LIES.reset(token)


def lies_in(block: Matrix) -> tuple[Matrix, int]:
    """The matrix to read, and the column in it where the block begins."""
    lies = _LIES.get()
    return lies[1:] if lies is not None and lies[0] is block else (block, 0)


def taken_anew(block: Matrix) -> Matrix:
    """The block, for a loop of XLA's that may not run at all: it would be copied beforehand."""
    w_local, column = lies_in(block)
    return block if w_local is block else w_local[:, column : column + block.shape[1]]


def without(function: Function) -> Function:
    """The function, traced without these loops."""

    @wraps(function)
    def run(*args: Any, **more: Any) -> Any:
        with using(least=inf):
            return function(*args, **more)

    return cast(Function, run)


def threads_now() -> int:
    """How many threads a loop takes in the program that is being traced."""
    return _USE.get().threads


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
