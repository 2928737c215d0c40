"""Aggregators 𝒜, which compute the global model w̃ from the parties' models (Alg. 1, l. 10)."""

from fedplus.aggregation.base import AbstractAggregator, Aggregate, ChangedRows, direct_aggregate
from fedplus.aggregation.clipping import CentredClipping, NormClipping
from fedplus.aggregation.coordinate_median import CoordinateMedian
from fedplus.aggregation.geometric_median import GeometricMedian
from fedplus.aggregation.krum import Krum
from fedplus.aggregation.mean import Mean
from fedplus.aggregation.moreau import Moreau
from fedplus.aggregation.recursion import Recursion
from fedplus.aggregation.trimmed_mean import TrimmedMean

__all__ = [
    "AbstractAggregator",
    "Aggregate",
    "CentredClipping",
    "ChangedRows",
    "CoordinateMedian",
    "GeometricMedian",
    "Krum",
    "Mean",
    "Moreau",
    "NormClipping",
    "Recursion",
    "TrimmedMean",
    "direct_aggregate",
]
