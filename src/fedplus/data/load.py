"""Federations by name."""

from typing import Any

from fedplus.check import lookup
from fedplus.data.federation import Federation
from fedplus.data.sets import SETS, DataSet


def data_set(name: str) -> DataSet:
    """The data set of that name; a wrong one gets a suggestion."""
    return lookup(name, SETS, "data set")


def load(name: str, *, seed: int = 0, **settings: Any) -> Federation:
    """A federation by name.

    Args:
        name: See ``fedplus data list``, or docs/data.md.
        seed: Of all that is random in it: the same seed gives the same federation everywhere.
        **settings: The set's own, such as ``parties``; see its card.

    >>> federation = load("digits-robust", seed=1, parties=20)
    >>> federation.parties, federation.info.outliers
    (20, ('18', '19'))
    """
    return data_set(name).load(seed, **settings)
