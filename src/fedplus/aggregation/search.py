"""How a search for each coordinate's median moves: the steps that its two phases share.

The pull of the parties falls as w grows. A pass over W tells it at one point a coordinate; the next
point is a step away, kept inside the bracket that the signs have given so far, with a bisection every
third pass against bad luck. Outside any bracket the steps grow. Their unit is the spacing of a few
rows around their median, which outliers, however far, do not change.
"""

import jax.numpy as jnp

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation.network import order_statistics

SAMPLE = 15
MOST_PASSES = 150


def sample_rows(w_local: Matrix) -> tuple[Vector, Vector]:
    """Median of a few rows spread evenly over W, and how far w moves past a unit of weight of N."""
    n = w_local.shape[0]
    size = min(n, SAMPLE)
    picked = [w_local[(2 * i + 1) * n // (2 * size)] for i in range(size)]
    low, high = size // 4, size - 1 - size // 4
    lower, median, upper = order_statistics(picked, (low, size // 2, high))
    return median, (upper - lower) * (size / (high - low + 1) / n)


def move(at: Vector, step: Vector, low: Vector, high: Vector, passes: Array, every: int) -> Vector:
    """The next point to look at; a bisection once in ``every`` passes."""
    grown = at + step * 4.0 ** jnp.minimum(passes, 40)
    halfway = low + 0.5 * (high - low)
    open_ended = (low == -jnp.inf) | (high == jnp.inf)
    stepped = jnp.where(open_ended, grown, at + step)
    inside = (stepped > low) & (stepped < high) & (open_ended | (passes % every != every - 1))
    return jnp.where(inside, stepped, jnp.where(halfway < high, halfway, low))
