"""Ports, and processes with all that they have started."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

HOST = "127.0.0.1"


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def reachable(port: int) -> bool:
    """Whether somebody does."""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs; none where there is no /proc."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def line_of(pid: int) -> str:
    """A process's command line."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    return ""


def kill(pids: Sequence[int]) -> None:
    """SIGKILL to processes that may have ended already."""
    _signal(pids, signal.SIGKILL)


def _signal(pids: Sequence[int], which: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, which)


def end(pids: Sequence[int], seconds: float = 15.0) -> None:
    """SIGTERM, and SIGKILL to those that are still there after a while."""
    _signal(pids, signal.SIGTERM)
    last = time.monotonic() + seconds
    while any(line_of(pid) for pid in pids) and time.monotonic() < last:
        time.sleep(0.1)
    kill(pids)
