"""Fewer points where a chart would not show more of them."""

import numpy as np

from fedplus.report.run_data import Host

LINES = 4_000
"""Points of all lines of a chart together."""
CELLS = 60_000
"""Of all heat maps together: party and round; as many of all lines of parties."""
PARTIES = 200
"""Rows of a heat map."""
COLUMNS = 100
"""Evaluated rounds where there is something for each party."""


def even_indices(n: int, most: int) -> Host:
    """At most this many of ``range(n)``, first and last among them."""
    return (
        np.arange(n)
        if n <= most
        else np.unique(np.linspace(0, n - 1, max(2, most)).round().astype(int))
    )


def end_indices(n: int, most: int) -> Host:
    """The first half and the last half of ``most`` of ``range(n)``."""
    return np.arange(n) if n <= most else np.r_[: most // 2, n - (most - most // 2) : n]


def peak_indices(y: Host, most: int) -> Host:
    """At most this many indices, of each stretch the one with the highest value: spikes stay."""
    if y.size <= most:
        return np.arange(y.size)
    parts = np.array_split(np.nan_to_num(y, nan=-np.inf), most)
    starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
    return np.array([start + part.argmax() for start, part in zip(starts, parts, strict=True)])
