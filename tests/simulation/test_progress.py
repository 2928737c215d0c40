"""The progress bar appears on a terminal and nowhere else."""

import pytest

from terminal import seen

PROGRAM = """
from small_federation import CLASSIFIER, federation
import fedplus as fp
fp.simulate(fp.presets.fedavg(eta=0.1), federation(), CLASSIFIER, rounds=40, steps=2)
"""


def test_the_bar_shows_rounds_speed_time_left_and_the_score():
    text = seen(PROGRAM, on_terminal=True)
    for part in ("40/40", "rounds/s", "0:00:0", "accuracy"):
        assert part in text


@pytest.mark.parametrize(("on_terminal", "more"), [(False, {}), (True, {"CI": "true"})])
def test_a_pipe_and_ci_get_no_bar(on_terminal, more):
    assert seen(PROGRAM, on_terminal, **more) == ""
