"""How a search for each coordinate's median moves: the steps that its phases share.

The pull of the parties falls as w grows. A pass over W tells it at one point a coordinate. The next
point is a step away; where that leaves the bracket that the signs have given so far, or where the
last step did not halve the pull, it is where the bracket's chord crosses zero, and its middle every
third pass. Outside any bracket the steps grow. Their unit is the spacing of a few rows around their
median, which outliers, however far, do not change.
"""

from typing import NamedTuple

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


class Bracket(NamedTuple):
    """Where each coordinate's root is, as far as is known."""

    low: Vector
    high: Vector
    pull_low: Vector  # > 0
    pull_high: Vector  # < 0
    last: Vector  # size of the last pull


def nowhere(at: Vector) -> Bracket:
    """The bracket before the first pass."""
    infinite = jnp.full_like(at, jnp.inf)
    return Bracket(-infinite, infinite, infinite, -infinite, infinite)


def narrow(b: Bracket, at: Vector, pull: Vector, tied: Array | float = 0) -> Bracket:
    """The bracket after a pass that found ``pull`` at ``at``; up to ``tied`` it may be none."""
    below, above = pull > tied, pull < -tied
    return Bracket(
        jnp.where(below, jnp.maximum(b.low, at), b.low),
        jnp.where(above, jnp.minimum(b.high, at), b.high),
        jnp.where(below, pull, b.pull_low),
        jnp.where(above, pull, b.pull_high),
        jnp.abs(pull),
    )


def move(before: Bracket, b: Bracket, at: Vector, step: Vector, passes: Array) -> Vector:
    """The next point to look at, inside ``b``, to which the pass at ``at`` narrowed ``before``."""
    open_ended = (b.low == -jnp.inf) | (b.high == jnp.inf)
    stalled = b.last > 0.5 * before.last
    grown = at + step * jnp.where(stalled, 4.0 ** jnp.minimum(passes, 40), 1)
    width = b.high - b.low
    share = jnp.where(passes % 3 == 2, 0.5, b.pull_low / (b.pull_low - b.pull_high))
    between = b.low + jnp.where(open_ended, 0, width * share)
    between = jnp.where(
        between < b.high, between, b.low
    )  # Neighbouring numbers: not ``high`` for ever.
    inside = (at + step > b.low) & (at + step < b.high) & ~stalled
    return jnp.where(open_ended, grown, jnp.where(inside, at + step, between))
