"""Runs the ``fedplus`` command as a user does: in a process of its own."""

import os
import subprocess
import sys

COMMAND = [sys.executable, "-m", "fedplus"]


def environment(**more):
    """Return the environment of the process: no colours unless a test sets them, CPU only."""
    env = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "CI")}
    return env | {"JAX_PLATFORMS": "cpu", "COLUMNS": "100"} | more


def fedplus(*arguments, cwd=None, status=0, **more):
    """Run a command, require its exit status, and return its output and errors."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=cwd,
        env=environment(**more), timeout=300,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def refused(*arguments, status=2, **more):
    """The one line with which a command refuses; without a traceback."""
    out, err = fedplus(*arguments, status=status, **more)
    assert out == ""
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("fedplus: ")
    return lines[0].removeprefix("fedplus: ")
