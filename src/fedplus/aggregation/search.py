"""Where the search for each coordinate's median begins, and the unit of its first steps.

The unit is the spacing of a few rows around their median, which outliers, however far, do not change.
"""

from typing import NamedTuple

from fedplus._types import Matrix, Vector
from fedplus.aggregation.network import order_statistics

SAMPLE = 15
MOST_PASSES = 150
NEAR = 4
"""So many parties from the middle, the search for a median goes from neighbour to neighbour."""


class Sample(NamedTuple):
    """Of a few rows of W."""

    size: int
    ranks: tuple[int, int, int]
    """Around the middle: the lower, the middle, and the upper one."""
    share: float
    """Of the way from the lower to the upper that w goes past a unit of weight of N."""


def sample_of(n: int) -> Sample:
    """How to sample n parties."""
    size = min(n, SAMPLE)
    low, high = size // 4, size - 1 - size // 4
    return Sample(size, (low, size // 2, high), size / (high - low + 1) / n)


def evenly(n: int, count: int) -> list[int]:
    """So many of n rows, spread evenly."""
    return [(2 * i + 1) * n // (2 * count) for i in range(count)]


def sample_rows(w_local: Matrix) -> tuple[Vector, Vector]:
    """Median of a few rows spread evenly over W, and how far w moves past a unit of weight of N."""
    n = w_local.shape[0]
    sample = sample_of(n)
    picked = [w_local[row] for row in evenly(n, sample.size)]
    lower, median, upper = order_statistics(picked, sample.ranks)
    return median, (upper - lower) * sample.share
