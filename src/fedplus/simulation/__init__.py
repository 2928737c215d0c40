"""Federations simulated: many rounds in one compiled program."""

from fedplus.simulation import faults
from fedplus.simulation.evaluate import Summary, majority_class
from fedplus.simulation.faults import Fault
from fedplus.simulation.round_statistics import RoundStatistics
from fedplus.simulation.run import Run
from fedplus.simulation.schedule import AbstractCohort, Stragglers, Trace, Uniform, Weighted
from fedplus.simulation.simulate import DivergedError, simulate, sweep
from fedplus.simulation.tune import Trial, Tuned, tune

__all__ = [
    "AbstractCohort", "DivergedError", "Fault", "RoundStatistics", "Run", "Stragglers", "Summary",
    "Trace", "Trial", "Tuned", "Uniform", "Weighted", "faults", "majority_class", "simulate", "sweep",
    "tune",
]  # fmt: skip
