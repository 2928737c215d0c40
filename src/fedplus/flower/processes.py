"""Free ports, and processes together with their descendants."""

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
"""The folder in which Linux lists processes; other systems use ``ps``."""


def free_port() -> int:
    """Return a port of this machine on which no process listens."""
    with socket.socket() as unused:
        unused.bind((HOST, 0))
        return int(unused.getsockname()[1])


def is_listening(port: int) -> bool:
    """Return whether a process of this machine listens on a port."""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def descendants(pid: int) -> list[int]:
    """Return the ids of a process's children, their children, and so on."""
    parents = dict(_parents())
    tree = [pid]
    for ancestor in tree:
        tree += [child for child, parent in parents.items() if parent == ancestor]
    return tree[1:]


def _parents() -> Iterator[tuple[int, int]]:
    """Yield the id of each process with the id of its parent."""
    if not PROC.exists():
        done = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, check=True)
        for line in done.stdout.splitlines():
            pid, parent = map(int, line.split())
            yield pid, parent
    for path in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])


def command_line(pid: int) -> str:
    """Return the command line of a process; empty if it has ended or the system has no ``/proc``."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().decode()
    return ""


def kill(pids: Sequence[int]) -> None:
    """Send SIGKILL to processes, some of which may have ended already."""
    _send_signal(pids, signal.SIGKILL)


def _send_signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def terminate(pids: Sequence[int], seconds: float = 15.0) -> None:
    """Send SIGTERM to processes, and SIGKILL to those that still run after ``seconds``."""
    _send_signal(pids, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while any(_is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    kill(pids)


def _is_alive(pid: int) -> bool:
    if PROC.exists():
        return bool(command_line(pid))  # A zombie process has no command line.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
