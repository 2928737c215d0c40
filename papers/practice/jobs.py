"""Runs the jobs of the study in several processes, for a limited time."""

import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence

from papers.practice.study import Job, run_job

JOBS_PER_PROCESS = 8
"""A process ends after this number of jobs, because compiled programs stay in its memory."""


def run_jobs(jobs: Sequence[Job], processes: int, end: float) -> Iterator[tuple[str, float]]:
    """Yield the name and the seconds of each job that ends before the time limit.

    Args:
        jobs: The jobs, in the order in which they start.
        processes: Number of jobs that run at a time; with 1, this process runs them.
        end: Time limit, on the clock of ``time.monotonic``.
    """
    if processes == 1:
        for job in jobs:
            if time.monotonic() > end:
                return
            yield _run_named(job)
        return
    with multiprocessing.get_context("spawn").Pool(
        processes, maxtasksperchild=JOBS_PER_PROCESS
    ) as pool:
        results = pool.imap_unordered(_run_named, jobs)
        for _ in jobs:
            try:
                yield results.next(timeout=max(0.0, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                print("Stopped: the same command continues.", file=sys.stderr)
                return


def _run_named(job: Job) -> tuple[str, float]:
    name = f"{job.federation}, {job.family}"
    try:
        return name, run_job(job)
    except Exception as error:
        # The other jobs continue. This one has written no piece, so the next command repeats it.
        print(f"{name} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return f"{name} FAILED", 0.0
