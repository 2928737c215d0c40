"""Compiled programs are removed before a process reaches the system's limit of memory maps."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedplus.experiments.compilation_cache import MAPS, MAX_MAPS

PROGRAM = """
import warnings
import fedplus as fp
from fedplus import presets
from fedplus.experiments.compilation_cache import MAPS, limit_compiled_programs
from small_federation import CLASSIFIER, federation

warnings.simplefilter("ignore")

def count_maps():
    return len(MAPS.read_bytes().splitlines())

def final_losses():
    method = presets.fedgeomed_plus(eta=0.1, sigma=1.0, delta=0.1)
    run = fp.simulate(method, federation(), CLASSIFIER, rounds=2, steps=2, progress=False)
    return run.evaluations["personal_loss"][-1].tolist()

losses = final_losses()
after_training = count_maps()
limit_compiled_programs(1.0)
below_limit = count_maps()
limit_compiled_programs(0.0)
print(after_training, below_limit, count_maps(), losses == final_losses())
"""


@pytest.mark.skipif(not (MAPS.exists() and MAX_MAPS.exists()), reason="needs /proc of Linux")
def test_programs_are_removed_only_above_the_limit_and_runs_stay_the_same():
    tests = Path(__file__).parents[1]
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tests, capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    after_training, below_limit, above_limit, same_losses = process.stdout.split()
    assert int(below_limit) >= int(after_training)
    assert int(above_limit) < int(after_training) - 100
    assert same_losses == "True"
