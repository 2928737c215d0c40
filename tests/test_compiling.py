"""Loops that are compiled while XLA compiles: who compiles them, who waits, and what if nobody can."""

import json
import subprocess
import sys
import time
from functools import cache

import jax
import numpy as np
import pytest

from command import environment

pytest.importorskip("numba")

from fedplus.aggregation.native.beside import Compilers
from fedplus.aggregation.native.frame import VECTOR, Takes, callable_by_xla
from fedplus.aggregation.native.loop import loop

TAKES = Takes((VECTOR,), (VECTOR,))


def called_by_xla(name):
    called = callable_by_xla(TAKES)
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(called.function.ctypes), platform="cpu")
    return called, jax.jit(jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((1,), np.float32)))


def address_of(loop):
    loop.compile(TAKES.types)
    compiled = loop.overloads[TAKES.types]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)


def test_a_loop_without_memory_is_an_error_of_xla_s():
    @loop
    def wants(x, y):
        room = np.empty(np.int64(x[0]), np.float32)
        y[0] = room[0]

    called, ask = called_by_xla("wants")
    called.lies[0] = address_of(wants)
    assert ask(np.float32([4])).shape == (1,)
    with pytest.raises((ValueError, RuntimeError), match="memory ran out in a compiled loop"):
        jax.block_until_ready(ask(np.float32([2.0**60])))


def test_a_program_can_be_compiled_before_its_loop_but_not_run():
    @loop
    def twice(x, y):
        y[0] = np.float32(2) * x[0]

    called, ask = called_by_xla("twice")
    program = ask.lower(np.float32([4])).compile()
    with pytest.raises((ValueError, RuntimeError), match="before it was compiled"):
        jax.block_until_ready(program(np.float32([4])))
    called.lies[0] = address_of(twice)
    assert [float(program(np.float32([x]))[0]) for x in (3, 4)] == [6, 8]


FIRST_EVER = """
import json, os, sys
cores, *command = json.loads(sys.argv[1])
os.sched_getaffinity = lambda _: range(cores)
from fedplus.aggregation.native import beside
beside.COMMAND = command or beside.COMMAND
import jax, numpy as np
from fedplus import L2, Mean, Moreau
from fedplus.aggregation import native
w = np.random.default_rng(0).normal(size=(40, 90)).astype(np.float32)
with native.using(least=0), native.meanwhile():
    program = jax.jit(lambda w: (Mean()(w).w, Moreau(L2(0.1))(w).w)).lower(w).compile()
found = np.stack(program(w)).tolist()
from fedplus.aggregation.native.table import LOOPS
stats = [loop.stats for loop, _ in LOOPS.values()]
print(json.dumps({
    "found": found, "loaded": sum(s.cache_hits.total() for s in stats),
    "compiled": sum(s.cache_misses.total() for s in stats),
}))
"""


def first_ever(tmp_path, cores, *command):
    env = environment(NUMBA_CACHE_DIR=str(tmp_path))
    run = [sys.executable, "-c", FIRST_EVER, json.dumps([cores, *command])]
    done = subprocess.run(run, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_others_compile_what_this_process_uses(tmp_path):
    """With as many as there are loops nothing is left to be compiled here; then all are on disk."""
    first, again = (first_ever(tmp_path, cores=4) for _ in range(2))
    assert first["loaded"] >= 1
    assert (again["loaded"], again["compiled"]) == (first["loaded"] + first["compiled"], 0)
    assert again["found"] == first["found"]


@pytest.mark.parametrize(
    "command",
    [["false"], ["/no/such/file"], [sys.executable, "-c", "import sys; sys.stdin.readline()"]],
)
def test_nobody_else_can(tmp_path, command):
    done = first_ever(tmp_path, 2, *command)
    assert done["loaded"] == 0
    assert done["compiled"] >= 2


def test_one_core_compiles_by_itself(tmp_path):
    assert first_ever(tmp_path, cores=1)["compiled"] >= 2


def test_nothing_can_be_kept(tmp_path):
    """Then no other process could hand anything over, and none is started."""
    (tmp_path / "file").touch()
    done = first_ever(tmp_path / "file", 2, "/bin/sh", "-c", f"echo started >> {tmp_path}/said")
    assert done["compiled"] + done["loaded"] >= 2
    assert not (tmp_path / "said").exists()


def test_what_was_interrupted_is_finished_later(monkeypatch):
    """A program that was traced while others compiled is there; its loop is, for whoever asks next."""
    from fedplus.aggregation.native import compiling

    asked = []
    monkeypatch.setattr(compiling, "compilers", lambda: Compilers(most=0))
    monkeypatch.setattr(compiling, "_WAITING", {})
    monkeypatch.setattr(compiling, "_called", cache(lambda name: asked.append(name)))
    compiling._WAITING["learn"] = None
    monkeypatch.setattr(compiling, "finish", asked.append)

    def interrupted():
        with compiling.meanwhile():
            compiling.make_known("learn")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert asked == ["learn"]  # Nobody waits for compilers when told to stop.
    compiling.make_known("learn")
    assert asked == ["learn", "learn"]


EACH_LOOP = """
import importlib, pkgutil
import numpy as np
import fedplus as fp
from fedplus.aggregation import native
from fedplus.aggregation.native import alone, compiling, table
for name in table.LOOPS:
    compiling.compile_now(name)
alone.LEAST = dict.fromkeys(alone.LEAST, 1)
for n, threads in ((9, 1), (40, 2), (300, 1), (300, 2)):
    alone.most_threads = lambda: threads
    w = np.random.default_rng(0).normal(size=(n, 400)).astype(np.float32)
    for a in (fp.Mean(), fp.CoordinateMedian(), fp.GeometricMedian(), fp.Moreau(fp.L1(0.1))):
        a(w), a(w, np.ones(n, np.float32)), a(w, start=w[0])
        fp.Followed(a, w).update([0], w[:1] + 1)
for module in pkgutil.iter_modules(native.__path__, native.__name__ + "."):
    for name, made in vars(importlib.import_module(module.name)).items():
        signatures = getattr(made, "nopython_signatures", ())
        if len(signatures) > 1 and made.targetoptions.get("inline") != "always":
            print(name, [str(s) for s in signatures])
"""


def test_each_loop_is_for_one_kind_of_number():
    """Another is seconds of compiling; two processes that keep both at once may mix them up."""
    run = [sys.executable, "-c", EACH_LOOP]
    env = environment(FEDPLUS_NUMBA="always")
    done = subprocess.run(run, env=env, capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_processes_end_when_there_is_nothing_to_do(monkeypatch):
    monkeypatch.setattr("fedplus.aggregation.native.beside.IDLE", 0.1)
    monkeypatch.setattr(
        "fedplus.aggregation.native.beside.COMMAND",
        [sys.executable, "-c", "import sys\nfor line in sys.stdin: print(flush=True)"],
    )
    many = Compilers(most=2)
    for _ in range(2):  # And are started again.
        jobs = [many.ask(name) for name in "abcde"]
        assert all(job.done.wait(60) for job in jobs)
        end = time.monotonic() + 60
        while many._running and time.monotonic() < end:
            time.sleep(0.01)
        assert many._running == 0


def test_what_nobody_has_begun_can_be_taken_back():
    none = Compilers(most=0)
    first, second = none.ask("first"), none.ask("second")
    assert none.take_back(second) is second
    assert none.take_back(second) is first  # Another one, while somebody waits.
    assert none.take_back(second) is None
