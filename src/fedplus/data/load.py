"""``load``: published data sets as federations, by name."""

from typing import Any

from fedplus.check import lookup
from fedplus.data.federation import Federation
from fedplus.data.sets import SETS, DataSet


def lookup_data_set(name: str) -> DataSet:
    """Return the data set of that name; the error for an unknown name suggests a similar one."""
    return lookup(name, SETS, "data set")


def load(name: str, *, seed: int = 0, **settings: Any) -> Federation:
    """Load a federation by name.

    Args:
        name: Name of the data set; ``fedplus data list`` and docs/data.md list them.
        seed: Seed of all random choices; the same seed gives the same federation on every machine.
        **settings: Settings of this data set, such as ``parties``; its card lists them.

    >>> federation = load("digits-robust", seed=1, parties=20)
    >>> federation.parties, federation.info.outliers
    (20, ('18', '19'))
    """
    return lookup_data_set(name).load(seed, **settings)
