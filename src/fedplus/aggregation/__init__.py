"""𝒜: from the models of all parties to the global model w̃."""

from fedplus.aggregation.base import AbstractAggregator, Aggregate
from fedplus.aggregation.coordinate_median import CoordinateMedian
from fedplus.aggregation.geometric_median import GeometricMedian
from fedplus.aggregation.mean import Mean
from fedplus.aggregation.moreau import Moreau
from fedplus.aggregation.recursion import Recursion

__all__ = [
    "AbstractAggregator",
    "Aggregate",
    "CoordinateMedian",
    "GeometricMedian",
    "Mean",
    "Moreau",
    "Recursion",
]
