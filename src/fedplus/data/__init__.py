"""Federations: by name, or of your own data."""

from fedplus.data import corrupt, partition
from fedplus.data.federation import Federation
from fedplus.data.files import DataError
from fedplus.data.holdout import Splitting
from fedplus.data.load import load
from fedplus.data.metadata import Metadata
from fedplus.data.sets import SETS
from fedplus.data.split import Split

__all__ = [
    "SETS",
    "DataError",
    "Federation",
    "Metadata",
    "Split",
    "Splitting",
    "corrupt",
    "load",
    "partition",
]
