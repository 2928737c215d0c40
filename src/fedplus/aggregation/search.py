"""Where the search for each coordinate's median begins, and the unit of its first steps.

The unit is the spacing of a few rows around their median, which outliers, however far, do not change.
"""

from fedplus._types import Matrix, Vector
from fedplus.aggregation.network import order_statistics

SAMPLE = 15
MOST_PASSES = 150
NEAR = 4
"""So many parties from the middle, the search for a median goes from neighbour to neighbour."""


def sample_rows(w_local: Matrix) -> tuple[Vector, Vector]:
    """Median of a few rows spread evenly over W, and how far w moves past a unit of weight of N."""
    n = w_local.shape[0]
    size = min(n, SAMPLE)
    picked = [w_local[(2 * i + 1) * n // (2 * size)] for i in range(size)]
    low, high = size // 4, size - 1 - size // 4
    lower, median, upper = order_statistics(picked, (low, size // 2, high))
    return median, (upper - lower) * (size / (high - low + 1) / n)
