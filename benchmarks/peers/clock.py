"""Code shared by the scripts of all contenders: arguments, timing of rounds, the printed result."""

import argparse
import itertools
import json
import os
import statistics
import time
from pathlib import Path

from workloads import WORKLOADS


def arguments(methods=("fedavg",)):
    """Parse ``--workload``, ``--seconds`` and ``--method``; return the workload as a ``Workload``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=list(WORKLOADS), default="A10")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of timed rounds")
    parser.add_argument("--method", choices=methods, default="fedavg")
    parsed = parser.parse_args()
    parsed.workload = WORKLOADS[parsed.workload]
    return parsed


def since_start():
    """Return the seconds since this process was started."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


def peak_megabytes():
    """Return the peak memory of this process alone; ``ru_maxrss`` includes that of its parent."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1]) / 1024


class Clock:
    """Times rounds: ``tick`` is called at the end of each round and returns True after the last one.

    If ``choices`` are given (numbers of threads, for example), each is tried for a while after the
    first round by calling ``choose`` with it, and the fastest is timed.
    """

    def __init__(self, seconds, choices=(), choose=None):
        self.seconds, self.choices, self.choose = seconds, choices, choose
        self.trials, self.program = {}, None

    def tick(self):
        """Record the end of a round; return True if the measurement is complete."""
        if self.program is None:
            self.first = since_start()
            self.program = self.measure()
        try:
            next(self.program)
        except StopIteration:
            return True
        return False

    def measure(self):
        """Measure the rounds as a generator that yields once per round."""
        if len(self.choices) > 1:
            for choice in self.choices:
                self.choose(choice)
                rounds = yield from self.timed(self.seconds / 10, warm_up=1, least=1)
                self.trials[choice] = 1e3 * statistics.median(rounds)
            self.choose(min(self.trials, key=self.trials.get))
        self.rounds = yield from self.timed(self.seconds, warm_up=2, least=3)

    def timed(self, seconds, warm_up, least):
        """Return the seconds of each round, without the first ``warm_up`` rounds, as a generator."""
        for _ in range(warm_up):
            yield
        times = [time.perf_counter()]
        while len(times) <= least or times[-1] - times[0] < seconds:
            yield
            times.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(times)]

    def report(self, peer, version, options, losses, peak_rss_mb=None, **more):
        """Print the result as one line of JSON.

        Args:
            peer: Name of the library.
            version: Its version.
            options: The parsed command line (``arguments``).
            losses: The losses of the global model before the training and after it.
            peak_rss_mb: The peak memory in MB. By default that of this process.
            more: Other entries of the line.
        """
        peak = peak_megabytes()
        line = {
            "peer": peer,
            "version": version,
            "workload": options.workload.name,
            "method": options.method,
            "rounds_per_second": round(len(self.rounds) / sum(self.rounds), 3),
            "median_round_ms": round(1e3 * statistics.median(self.rounds), 3),
            "rounds": len(self.rounds),
            "first_round_seconds": round(self.first, 2),
            "peak_rss_mb": round(peak_rss_mb or peak, 1),
            "initial_loss": round(float(losses[0]), 4),
            "final_loss": round(float(losses[1]), 4),
            "trained": bool(losses[1] < losses[0]),
        }
        if self.trials:
            line["setting"] = str(min(self.trials, key=self.trials.get))
            line["trials_ms"] = {str(choice): round(ms, 2) for choice, ms in self.trials.items()}
        print(json.dumps(line | more), flush=True)
