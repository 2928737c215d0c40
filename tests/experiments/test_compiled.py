"""Compiled programs are let go of before the system refuses memory for another."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedplus.experiments.compilation_cache import MAPS, MOST_MAPS

LEFT = """
import warnings
import fedplus as fp
from fedplus import presets
from fedplus.experiments.compilation_cache import MAPS, limit_compiled_programs
from small_federation import CLASSIFIER, federation

warnings.simplefilter("ignore")

def maps():
    return len(MAPS.read_bytes().splitlines())

def loss():
    method = presets.fedgeomed_plus(eta=0.1, sigma=1.0, delta=0.1)
    run = fp.simulate(method, federation(), CLASSIFIER, rounds=2, steps=2, progress=False)
    return run.evaluations["personal_loss"][-1].tolist()

first = loss()
trained = maps()
limit_compiled_programs(1.0)
kept = maps()
limit_compiled_programs(0.0)
print(trained, kept, maps(), first == loss())
"""


@pytest.mark.skipif(not (MAPS.exists() and MOST_MAPS.exists()), reason="Linux alone counts maps")
def test_programs_are_let_go_of_once_they_are_too_many_and_runs_stay_the_same():
    here = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", LEFT], cwd=here, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    trained, kept, left, same = done.stdout.split()
    assert int(kept) >= int(trained)
    assert int(left) < int(trained) - 100
    assert same == "True"
