"""Measure the peak memory of a process and all its descendants, for peers that start processes."""

import os
import time
from pathlib import Path


def watch(peak, running):
    """Update ``peak[0]`` with the peak memory in MB while ``running`` is set.

    Memory that several processes share is counted once.
    """
    while running.is_set():
        children = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
        waiting, total = [os.getpid()], 0
        while waiting:
            process = waiting.pop()
            waiting += children.get(process, [])
            try:
                lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        peak[0] = max(peak[0], total / 1024)
        time.sleep(1.0)
