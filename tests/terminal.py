"""Run Python programs whose standard error is a real terminal or a pipe."""

import os
import pty
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def seen(program, on_terminal, **more):
    """Return what a Python program writes to standard error, which is a terminal or a pipe."""
    env = {k: v for k, v in os.environ.items() if k != "CI"} | more
    env |= {
        "PYTHONPATH": str(HERE),
        "JAX_PLATFORMS": "cpu",
        "TERM": "xterm",
        "COLUMNS": "120",
    }
    master, slave = pty.openpty() if on_terminal else os.pipe()
    process = subprocess.Popen([sys.executable, "-c", program], env=env, stderr=slave)
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # The program has closed its end of the terminal.
            break
        if not part:
            break
        text += part
    os.close(master)
    assert process.wait() == 0, text.decode()
    return text.decode()
