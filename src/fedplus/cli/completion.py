"""What the shell offers after a Tab."""

from fedplus.data import SETS
from fedplus.methods import METHODS


def complete_data_set(incomplete: str) -> list[tuple[str, str]]:
    """Names of data sets."""
    return [(s.name, s.summary) for s in SETS.values() if s.name.startswith(incomplete)]


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Names of methods."""
    return [(m.name, m.summary) for m in METHODS.values() if m.name.startswith(incomplete)]
