"""The work of a study: jobs, several at a time, and how long each took.

A process a core: the paper's models are so small that one run gains nothing from a second core.
"""

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from papers.fed_plus.study import Asked

from fedplus.experiments.compilation_cache import enable_compilation_cache, limit_compiled_programs
from fedplus.experiments.files import write_json

TIMES = "times.json"
PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}


class Job(NamedTuple):
    """Something to do in a process of its own: a function of a module, and what it is given."""

    name: str
    do: Callable[..., Any]
    given: tuple[Any, ...]


class Took(NamedTuple):
    """How long a job took, and how long a processor worked for it: less, on a busy machine."""

    seconds: float
    processor: float


def carry_out(asked: Asked, jobs: Sequence[Job]) -> None:
    """Do all jobs, so many at a time, tell of each, and note how long each took."""
    for number, (job, took) in enumerate(_done(asked, jobs), 1):
        told = f"{number} of {len(jobs)}: {job.name}, {took.seconds:.0f} s"
        print(told, file=sys.stderr, flush=True)
        known = times(asked.folder)
        earlier = known.get(
            job.name, {}
        )  # A job that was broken off goes on, and so does its time.
        known[job.name] = {n: round(v + earlier.get(n, 0.0), 1) for n, v in took._asdict().items()}
        write_json(asked.folder / TIMES, dict(sorted(known.items())))


def times(folder: Path) -> dict[str, dict[str, float]]:
    """What each job so far took."""
    path = folder / TIMES
    return dict(json.loads(path.read_bytes())) if path.exists() else {}


def _done(asked: Asked, jobs: Sequence[Job]) -> Iterator[tuple[Job, Took]]:
    if asked.jobs == 1 or len(jobs) < 2:
        use(asked.device, threads=None)
        for job in jobs:
            yield job, _timed(job)
        return
    threads = max(1, (os.cpu_count() or 1) // asked.jobs)
    pool = ProcessPoolExecutor(
        asked.jobs, multiprocessing.get_context("spawn"), use, (asked.device, threads)
    )
    try:
        waiting = {pool.submit(_timed, job): job for job in jobs}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def use(device: str | None, threads: int | None) -> None:
    """Choose the device, keep compiled programs; before anything is computed."""
    import jax

    update: Any = jax.config.update
    if threads is not None:
        os.environ["NPROC"] = str(threads)  # Of XLA's pool of threads.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        update("jax_num_cpu_devices", threads)
    if device is not None:
        update("jax_platforms", PLATFORMS[device])
    enable_compilation_cache()


def _timed(job: Job) -> Took:
    begun, worked = time.monotonic(), time.process_time()
    limit_compiled_programs()
    job.do(*job.given)
    return Took(round(time.monotonic() - begun, 1), round(time.process_time() - worked, 1))
