"""How XLA gets at a loop, from disk or, for the first time ever on a machine, when it is compiled.

Numba takes seconds for a loop, XLA for a program, and neither waits for the other: a program finds its
loops when it calls them. Until then processes beside this one compile (``beside.py``) what is not on
disk; what they have not begun by then, or cannot compile, is compiled here.
"""

import gc
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from fedplus.aggregation.native.beside import Job, compilers
from fedplus.aggregation.native.kept import folder

if TYPE_CHECKING:  # Numba is imported while a process beside this one starts.
    from fedplus.aggregation.native.frame import Called


def prepare() -> None:
    """Start a process that compiles, before it is known what, if nothing is on disk."""
    if not folder().exists():
        compilers().start()


@cache
def handler(name: str) -> "Called":
    """A loop as XLA can call it, kept for as long as this process lives."""
    prepare()
    from fedplus.aggregation.native.frame import callable_by_xla
    from fedplus.aggregation.native.table import LOOPS

    job = None if _is_ready(name) else compilers().ask(name)

    def find() -> int:
        while job is not None and not job.done.is_set():
            undone = compilers().take_back(job)
            if undone is None:
                job.done.wait()
            else:
                compile_here(undone)
        compiled = compile_now(name)
        address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        return address

    return callable_by_xla(LOOPS[name][1], find)


def compile_here(job: Job) -> None:
    """Do what nobody else has begun."""
    collects = gc.isenabled()
    gc.disable()  # It would look at all there is, again and again, for hardly any garbage.
    try:
        compile_now(job.name)
    finally:
        job.done.set()
        if collects:
            gc.enable()


def compile_now(name: str) -> Any:
    """A loop as machine code, from disk where it is there."""
    from fedplus.aggregation.native.table import LOOPS

    loop, takes = LOOPS[name]
    loop.compile(takes.types)
    return loop.overloads[takes.types]


def _is_ready(name: str) -> bool:
    """Whether a loop is on disk, or other processes could not hand it over to this one."""
    from fedplus.aggregation.native.table import LOOPS

    loop, takes = LOOPS[name]
    kept = loop._cache
    return kept.cache_path is None or kept.load_overload(takes.types, loop.targetctx) is not None


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
