"""Federations."""

from fedplus.data import corrupt
from fedplus.data.federation import Federation, Split

__all__ = ["Federation", "Split", "corrupt"]
