"""Ports, and processes with all that they have started."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

HOST = "127.0.0.1"
PROC = Path("/proc")
"""Where Linux tells of processes; elsewhere ``ps`` does."""


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def is_listening(port: int) -> bool:
    """Whether somebody does."""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    parents = dict(_parents())
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _parents() -> Iterator[tuple[int, int]]:
    """Each process and what has started it."""
    if not PROC.exists():
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, check=True)
        for line in listed.stdout.splitlines():
            one, parent = map(int, line.split())
            yield one, parent
    for path in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])


def command_line(pid: int) -> str:
    """A process's command line."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().decode()
    return ""


def kill(pids: Sequence[int]) -> None:
    """SIGKILL to processes that may have ended already."""
    _signal(pids, signal.SIGKILL)


def _signal(pids: Sequence[int], which: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, which)


def terminate(pids: Sequence[int], seconds: float = 15.0) -> None:
    """SIGTERM, and SIGKILL to those that are still there after a while."""
    _signal(pids, signal.SIGTERM)
    last = time.monotonic() + seconds
    while any(_alive(pid) for pid in pids) and time.monotonic() < last:
        time.sleep(0.1)
    kill(pids)


def _alive(pid: int) -> bool:
    if PROC.exists():
        return bool(command_line(pid))  # One that has ended and was not waited for has none.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
