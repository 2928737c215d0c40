"""Simulation of federated learning on one machine or several: many rounds in one compiled program.

Start reading at ``simulate.py``. It calls ``setup.py`` to check the arguments, ``engine.py`` to run the
rounds, ``recorder.py`` to evaluate and record, and ``checkpointing.py`` to save and to resume a run.
"""

from fedplus.simulation import faults
from fedplus.simulation.divergence import DivergedError
from fedplus.simulation.evaluate import Summary, majority_class_accuracy
from fedplus.simulation.faults import Fault
from fedplus.simulation.participation import AbstractCohort, Stragglers, Trace, Uniform, Weighted
from fedplus.simulation.round_statistics import RoundStatistics
from fedplus.simulation.run import Run
from fedplus.simulation.simulate import simulate, sweep
from fedplus.simulation.tune import Trial, TuningResult, tune

__all__ = [
    "AbstractCohort", "DivergedError", "Fault", "RoundStatistics", "Run", "Stragglers", "Summary",
    "Trace", "Trial", "TuningResult", "Uniform", "Weighted", "faults", "majority_class_accuracy",
    "simulate", "sweep", "tune",
]  # fmt: skip
