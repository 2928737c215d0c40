"""Jobs of a study: functions that run in several processes, and how long each took.

By default there is one process per core: the paper's models are so small that one run gains nothing
from a second core.
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

from papers.fed_plus.study import StudyOptions

from fedplus.experiments.compilation_cache import enable_compilation_cache, limit_compiled_programs
from fedplus.experiments.run_folder_files import write_json

DURATIONS_FILE = "times.json"
PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}


class Job(NamedTuple):
    """A module-level function and its arguments, to be called in a process of its own."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Duration(NamedTuple):
    """Wall-clock time and processor time of a job, in seconds."""

    seconds: float
    processor: float


def run_jobs(options: StudyOptions, jobs: Sequence[Job]) -> None:
    """Run all jobs, ``options.jobs`` at a time, print each when it ends, and record its duration."""
    for number, (job, duration) in enumerate(_completed_jobs(options, jobs), 1):
        message = f"{number} of {len(jobs)}: {job.name}, {duration.seconds:.0f} s"
        print(message, file=sys.stderr, flush=True)
        durations = read_durations(options.folder)
        earlier = durations.get(job.name, {})  # An interrupted job resumes, so its times add up.
        durations[job.name] = {
            key: round(value + earlier.get(key, 0.0), 1)
            for key, value in duration._asdict().items()
        }
        write_json(options.folder / DURATIONS_FILE, dict(sorted(durations.items())))


def read_durations(folder: Path) -> dict[str, dict[str, float]]:
    """Return the duration of each completed job of a study's folder."""
    path = folder / DURATIONS_FILE
    return dict(json.loads(path.read_bytes())) if path.exists() else {}


def _completed_jobs(options: StudyOptions, jobs: Sequence[Job]) -> Iterator[tuple[Job, Duration]]:
    if options.jobs == 1 or len(jobs) < 2:
        configure_jax(options.device, threads=None)
        for job in jobs:
            yield job, _run_timed(job)
        return
    threads = max(1, (os.cpu_count() or 1) // options.jobs)
    pool = ProcessPoolExecutor(
        options.jobs, multiprocessing.get_context("spawn"), configure_jax, (options.device, threads)
    )
    try:
        pending = {pool.submit(_run_timed, job): job for job in jobs}
        for future in as_completed(pending):
            yield pending[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def configure_jax(device: str | None, threads: int | None) -> None:
    """Choose JAX's device and number of threads, and turn on the compilation cache.

    This has an effect only before JAX computes anything.
    """
    import jax

    update: Any = jax.config.update
    if threads is not None:
        os.environ["NPROC"] = str(threads)  # The size of XLA's thread pool.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        update("jax_num_cpu_devices", threads)
    if device is not None:
        update("jax_platforms", PLATFORMS[device])
    enable_compilation_cache()


def _run_timed(job: Job) -> Duration:
    start, processor_start = time.monotonic(), time.process_time()
    limit_compiled_programs()
    job.function(*job.arguments)
    return Duration(
        round(time.monotonic() - start, 1), round(time.process_time() - processor_start, 1)
    )
