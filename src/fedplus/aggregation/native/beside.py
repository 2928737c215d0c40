"""Processes beside this one, which compile loops while XLA compiles the programs that will call them.

Numba's compiler is Python, of which one thread runs at a time; hence processes.
"""

import sys
from collections import deque
from contextlib import suppress
from functools import cache
from subprocess import DEVNULL, PIPE, Popen
from threading import Condition, Event, Thread
from typing import NamedTuple

from fedplus._machine import cores

COMMAND = (sys.executable, "-P", "-m", "fedplus.aggregation.native.compiling")
MOST = 3
IDLE = 3.0
"""Seconds after which a process ends that nobody asks for anything."""


class Job(NamedTuple):
    """A loop to compile."""

    name: str
    done: Event
    """It is compiled, or could not be."""


class Compilers:
    """So many processes at most, each for as long as there is something to do."""

    def __init__(self, most: int) -> None:
        self._most, self._running, self._idle = most, 0, 0
        self._jobs: deque[Job] = deque()
        self._changed = Condition()

    def start(self) -> None:
        """One more process, if there may be, before it is known what there is to do."""
        with self._changed:
            if self._running < self._most:
                self._running += 1
                Thread(target=self._serve, daemon=True).start()

    def ask(self, name: str) -> Job:
        """For a loop."""
        job = Job(name, Event())
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()
            enough = len(self._jobs) <= self._idle
        if not enough:
            self.start()
        return job

    def take_back(self, job: Job) -> Job | None:
        """That job, or else another, if nobody has begun it."""
        with self._changed:
            if not self._jobs:
                return None
            found = job if job in self._jobs else self._jobs[0]
            self._jobs.remove(found)
            return found

    def _serve(self) -> None:
        with suppress(OSError), Popen(COMMAND, stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            answer = b"\n"
            while answer and (job := self._next()) is not None:
                try:
                    process.stdin.write(f"{job.name}\n".encode())
                    process.stdin.flush()
                    answer = process.stdout.readline()
                finally:
                    job.done.set()
        with self._changed:
            self._running -= 1

    def _next(self) -> Job | None:
        with self._changed:
            self._idle += 1
            some = self._changed.wait_for(lambda: self._jobs, IDLE)
            self._idle -= 1
            return self._jobs.popleft() if some else None


@cache
def compilers() -> Compilers:
    """For cores that this process does not need itself."""
    is_python = bool(sys.executable) and not getattr(sys, "frozen", False)
    return Compilers(min(cores() - 1, MOST) if is_python else 0)
