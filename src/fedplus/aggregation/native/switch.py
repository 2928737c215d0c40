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

from fedplus._check import require
from fedplus._types import Host, Matrix

ASKED = ("auto", "always", "off")
"""What ``FEDPLUS_NUMBA`` may say; "always": for every W, however small."""
Function = TypeVar("Function", bound=Callable[..., Any])


class Use(NamedTuple):
    """Of these loops, in the program that is being traced."""

    least: float = 2**20
    """Entries of W from which on they are used. For less it is not worth importing Numba."""
    threads: int | None = 1
    """How many each takes; None: as many as there are."""


_USUAL = Use()
_USE: ContextVar[Use] = ContextVar("use", default=_USUAL)


def usable(w_local: Matrix) -> bool:
    """Whether these loops can pass over this W, in the program that is being traced."""
    least = _USE.get().least
    if least == inf or w_local.dtype != np.float32 or jax.default_backend() != "cpu":
        return False
    return (w_local.size >= least or asked() == "always") and installed()


def in_memory(w_local: Any, least: int) -> Host | None:
    """W as NumPy has it, where it is at hand on a CPU and loops can pass over it by themselves."""
    if w_local.__class__ is not np.ndarray:
        if not isinstance(w_local, jax.Array) or isinstance(w_local, jax.core.Tracer):
            return None
        if len(w_local.sharding.device_set) > 1:
            return None
    if _USE.get() is not _USUAL or jax.default_backend() != "cpu" or w_local.ndim != 2:
        return None
    if w_local.dtype != np.float32 or (w_local.size < least and asked() != "always"):
        return None
    return np.ascontiguousarray(w_local) if w_local.size and installed() else None


def expect(entries: int) -> None:
    """A program for a W of so many entries is about to be traced: its loops may have to be compiled."""
    if entries >= _USUAL.least and jax.default_backend() == "cpu" and installed():
        from fedplus.aggregation.native.compiling import prepare

        prepare()


@contextmanager
def meanwhile() -> Iterator[None]:
    """While a program is compiled, but not run: its loops are compiled at the same time."""
    if not installed():
        yield
        return
    from fedplus.aggregation.native.compiling import meanwhile

    with meanwhile():
        yield


@contextmanager
def using(least: float, threads: int | None = 1) -> Iterator[None]:
    """While a program is traced: how these loops are used in it."""
    token = _USE.set(Use(least, threads))
    try:
        yield
    finally:
        _USE.reset(token)


def without(function: Function) -> Function:
    """The function, traced without these loops."""

    @wraps(function)
    def run(*args: Any, **more: Any) -> Any:
        with using(least=inf):
            return function(*args, **more)

    return cast(Function, run)


def threads_now() -> int:
    """How many threads a loop takes in the program that is being traced."""
    threads = _USE.get().threads
    return most_threads() if threads is None else threads


@cache
def asked() -> str:
    """When these loops are to be used, as the environment says."""
    word = os.environ.get("FEDPLUS_NUMBA", "auto")
    require(word in ASKED, "FEDPLUS_NUMBA", repr(word), ", ".join(ASKED), "Unset it for auto.")
    return word


@cache
def installed() -> bool:
    """Whether there is Numba, and nobody has said not to use it."""
    return asked() != "off" and find_spec("numba") is not None


@cache
def most_threads() -> int:
    """How many threads a loop may take where nothing else goes on; 1 if Numba's are not for us."""
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


def register(name: str) -> str:
    """Make a loop known to XLA, and say under which name."""
    from fedplus.aggregation.native.compiling import make_known

    make_known(name)
    return f"fedplus_{name}"
