"""How XLA gets at a loop, which the first run ever on a machine has to compile.

Numba takes seconds for a loop, XLA for a program, and neither need wait for the other: ``meanwhile`` a
program is compiled, processes beside this one (``beside.py``) compile the loops that it will call. At
its end what nobody has begun is compiled here. From the second run on loops are on disk.
"""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import jax

from fedplus.aggregation.native.beside import Job, compilers
from fedplus.aggregation.native.kept import folder

if TYPE_CHECKING:  # Numba is imported while a process beside this one starts.
    from fedplus.aggregation.native.frame import Called

PATIENCE = 120.0
"""Seconds that another process may take for a loop."""
_ffi: Any = jax.ffi
_MEANWHILE: ContextVar[bool] = ContextVar("meanwhile", default=False)
_LOCK = RLock()
_WAITING: dict[str, Job | None] = {}
"""Loops that XLA knows of, and that are not there yet; None: nobody else was asked."""


def prepare() -> None:
    """Start a process that compiles, before it is known what, in the first run ever."""
    with suppress(OSError):
        folder().mkdir(parents=True)
        compilers().start()


@contextmanager
def meanwhile() -> Iterator[None]:
    """While programs are compiled, but not run, leave their loops to others; then all are there."""
    token = _MEANWHILE.set(True)
    try:
        yield
    finally:
        _MEANWHILE.reset(token)
    for name in list(_WAITING):
        finish(name)


def make_known(name: str) -> None:
    """Make a loop known to XLA; it is there, unless somebody has it compiled ``meanwhile``."""
    with _LOCK:
        _called(name)
    if name in _WAITING and not _MEANWHILE.get():
        finish(name)


@cache
def _called(name: str) -> "Called":
    """A loop as XLA calls it, for as long as this process lives."""
    if _MEANWHILE.get():
        prepare()
    from fedplus.aggregation.native.frame import callable_by_xla
    from fedplus.aggregation.native.table import LOOPS

    others_can = not _mark(name).exists() and os.access(folder(), os.W_OK)
    _WAITING[name] = compilers().ask(name) if _MEANWHILE.get() and others_can else None
    called = callable_by_xla(LOOPS[name][1])
    function = _ffi.pycapsule(called.function.ctypes)
    _ffi.register_ffi_target(f"fedplus_{name}", function, platform="cpu")
    return called


def finish(name: str) -> None:
    """Wait until a loop is compiled, or compile it, and tell where it lies."""
    job = _WAITING.get(name)
    while job is not None and not job.done.is_set():
        undone = compilers().take_back(job)
        if undone is not None:
            _compile_here(undone)
        elif not job.done.wait(PATIENCE):
            break
    compiled = compile_now(name)
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    _called(name).lies[0] = address
    _WAITING.pop(name, None)


def compile_now(name: str) -> Any:
    """A loop as machine code, from disk where it is there."""
    from fedplus.aggregation.native.table import LOOPS

    loop, takes = LOOPS[name]
    loop.compile(takes.types)
    with suppress(OSError):
        _mark(name).touch()
    return loop.overloads[takes.types]


def _compile_here(job: Job) -> None:
    """What nobody else has begun."""
    collects = gc.isenabled()
    gc.disable()  # It would look at all there is, again and again, for hardly any garbage.
    try:
        compile_now(job.name)
    finally:
        job.done.set()
        if collects:
            gc.enable()


def _mark(name: str) -> Path:
    """A file that says that a loop is on disk."""
    return folder() / f"{name}.compiled"


def main() -> None:
    """Compile the loops whose names come in, a line each, and say so."""
    from fedplus.aggregation.native.loop import piece

    gc.disable()
    piece(1, 0, 1)  # All that Numba does before its first loop, while nobody has asked for one.
    for line in sys.stdin:
        compile_now(line.strip())
        print(flush=True)


if __name__ == "__main__":
    main()
