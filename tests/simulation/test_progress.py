"""The bar: on a terminal, and nowhere else."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAM = """
from small_federation import CLASSIFIER, federation
import fedplus as fp
fp.simulate(fp.presets.fedavg(eta=0.1), federation(), CLASSIFIER, rounds=40, steps=2)
"""


def seen(on_terminal, **more):
    """What the program writes to standard error, a terminal or a pipe."""
    env = {k: v for k, v in os.environ.items() if k != "CI"} | more
    env |= {
        "PYTHONPATH": str(HERE.parent),
        "JAX_PLATFORMS": "cpu",
        "TERM": "xterm",
        "COLUMNS": "120",
    }
    master, slave = pty.openpty() if on_terminal else os.pipe()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stderr=slave)
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # A terminal whose other end is closed.
            break
        if not part:
            break
        text += part
    os.close(master)
    assert process.wait() == 0, text.decode()
    return text.decode()


def test_a_person_sees_rounds_speed_time_left_and_the_score():
    text = seen(on_terminal=True)
    for what in ("40/40", "rounds/s", "0:00:0", "accuracy"):
        assert what in text


@pytest.mark.parametrize(("on_terminal", "more"), [(False, {}), (True, {"CI": "true"})])
def test_a_pipe_and_ci_see_nothing(on_terminal, more):
    assert seen(on_terminal, **more) == ""
