"""Run ``python -m papers.fed_plus`` as a user does: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run_study(*arguments, cwd=None, status=0):
    """Run the command, require its exit status, and return its output and errors."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "papers.fed_plus", *map(str, arguments)], capture_output=True,
        text=True, cwd=cwd or ROOT, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr
