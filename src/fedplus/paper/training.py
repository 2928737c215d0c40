"""Train specifications into run folders, several at a time; what is finished is left alone.

A process a core: the paper's models are so small that one run gains nothing from a second core.
"""

import json
import multiprocessing
import os
import sys
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from fedplus._check import SettingError
from fedplus._write import write_atomically
from fedplus.experiments.compiled import keep_compiled
from fedplus.experiments.files import write_json
from fedplus.experiments.folder import SPEC, RunFolder, is_run
from fedplus.experiments.running import folders_of, run_all, slug
from fedplus.experiments.source import Source
from fedplus.experiments.spec import Spec, checked, to_toml
from fedplus.local import KappaWarning
from fedplus.paper.study import Asked

TIMES = "times.json"
ENDED = ("finished", "failed")
PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}


class Job(NamedTuple):
    """Something to do in a process of its own: a function of a module, and what it is given."""

    name: str
    do: Callable[..., None]
    given: tuple[Any, ...]


class Took(NamedTuple):
    """How long a job took, and how long a processor worked for it: less, on a busy machine."""

    seconds: float
    processor: float


def trained(asked: Asked, specs: Mapping[str, Spec]) -> dict[str, list[RunFolder]]:
    """Train each specification into the folder of its name, a job for each of its seeds."""
    jobs = []
    for name, spec in specs.items():
        folder = asked.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        jobs += [
            (place, Job(f"{name}, seed {seed}", _train, (str(folder), to_toml(_of(spec, seed)))))
            for place, seed in enumerate(spec.seeds)
            if not _finished(_of(spec, seed), folder)
        ]
    jobs.sort(key=lambda one: one[0])  # Everything with one seed comes first.
    carry_out(asked, [job for _, job in jobs])
    for name, spec in specs.items():  # All seeds: each job wrote its own.
        write_atomically(asked.folder / name / SPEC, to_toml(spec).encode())
    return {name: runs_of(spec, asked.folder / name) for name, spec in specs.items()}


def places(spec: Spec, folder: Path) -> dict[tuple[int, int], Path]:
    """Where the run of each method (by number) and seed goes: always a folder below this one."""
    if len(spec.methods) > 1:
        return folders_of(spec, folder)
    name = slug(str(spec.methods[0].label))
    return {(0, seed): folder / f"{name}-{seed}" for seed in spec.seeds}


def runs_of(spec: Spec, folder: Path) -> list[RunFolder]:
    """The runs of a specification that have come to their end."""
    there = [RunFolder(at) for at in places(spec, folder).values() if is_run(at)]
    return [run for run in there if run.status["state"] in ENDED]


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
    keep_compiled()


def _timed(job: Job) -> Took:
    begun, worked = time.monotonic(), time.process_time()
    job.do(*job.given)
    return Took(round(time.monotonic() - begun, 1), round(time.process_time() - worked, 1))


def _train(folder: str, toml: str) -> None:
    """All methods with the one seed."""
    spec = checked(tomllib.loads(toml), Source())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KappaWarning)  # The paper's own settings are outside (D8).
        (seed,) = spec.seeds
        alone = len(spec.methods) == 1  # Then the folder that is given is the run's own.
        place = places(spec, Path(folder))[0, seed] if alone else Path(folder)
        run_all(spec, place, resume=True, told=lambda label, round_, score: None)


def _of(spec: Spec, seed: int) -> Spec:
    return spec.model_copy(update={"seeds": [seed]})


def _finished(spec: Spec, folder: Path) -> bool:
    """Whether all runs of this one seed are; refused if there are others in their place."""
    done = True
    for (i, seed), at in places(spec, folder).items():
        if not is_run(at):
            done = False
            continue
        run = RunFolder(at)
        if run.spec != tomllib.loads(to_toml(spec.one(i, seed))):
            raise SettingError(
                f"{at} must be a run of what is asked for now, got one with other settings. "
                "Give another --out, or remove it."
            )
        done &= run.status["state"] in ENDED
    return done
