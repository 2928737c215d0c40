"""The public names of ``fedplus``, which ``fedplus.__init__`` imports on first use."""

from fedplus import baselines, methods, models, presets, schedules, server_optimizer
from fedplus._types import settings
from fedplus.aggregation import (
    AbstractAggregator,
    Aggregate,
    CentredClipping,
    CoordinateMedian,
    GeometricMedian,
    Krum,
    Mean,
    Moreau,
    NormClipping,
    Recursion,
    TrimmedMean,
    direct_aggregate,
)
from fedplus.algorithm import AbstractAlgorithm, FedPlus, Outcome, State
from fedplus.check import SettingError
from fedplus.data import Federation
from fedplus.experiments.dataframes import read_run
from fedplus.experiments.trained_model import TrainedModel, load_model
from fedplus.kappa import KappaWarning
from fedplus.layers import Layer, Layers
from fedplus.local import LocalSolve
from fedplus.objective import FixedPoint, Objective
from fedplus.parameter_groups import ByLayer, PrivateLayers
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Custom, Quadratic, Zero
from fedplus.schedules import at_round
from fedplus.simulation import Run, simulate, sweep, tune
from fedplus.work import Work

__all__ = [
    "L1",
    "L2",
    "AbstractAggregator",
    "AbstractAlgorithm",
    "AbstractPsi",
    "Aggregate",
    "Anchor",
    "Blocks",
    "ByLayer",
    "CentredClipping",
    "CoordinateMedian",
    "Custom",
    "FedPlus",
    "Federation",
    "FixedPoint",
    "GeometricMedian",
    "KappaWarning",
    "Krum",
    "Layer",
    "Layers",
    "LocalSolve",
    "Mean",
    "Moreau",
    "NormClipping",
    "Objective",
    "Outcome",
    "PrivateLayers",
    "Quadratic",
    "Recursion",
    "Run",
    "SettingError",
    "State",
    "TrainedModel",
    "TrimmedMean",
    "Work",
    "Zero",
    "at_round",
    "baselines",
    "direct_aggregate",
    "load_model",
    "methods",
    "models",
    "presets",
    "read_run",
    "schedules",
    "server_optimizer",
    "settings",
    "simulate",
    "sweep",
    "tune",
]  # fmt: skip
