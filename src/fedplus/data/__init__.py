"""Federations."""

from fedplus.data.federation import Federation, Split

__all__ = ["Federation", "Split"]
