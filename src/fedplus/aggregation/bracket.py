"""A bracket around each coordinate's root of a falling function, and where to look in it next.

The next point is a step away; where that leaves the bracket that the signs have given so far, or where
the last step did not halve the pull, it is where the bracket's chord crosses zero, and its middle
every fourth pass. Outside any bracket the steps grow.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedplus._types import Array, Vector


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


def narrow(b: Bracket, at: Vector, pull: Vector) -> Bracket:
    """The bracket after a pass that found ``pull`` at ``at``."""
    below, above = pull > 0, pull < 0
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
    share = jnp.where(passes % 4 == 3, 0.5, b.pull_low / (b.pull_low - b.pull_high))
    between = b.low + jnp.where(open_ended, 0, width * share)
    # Between neighbouring numbers rounding would give ``high`` for ever.
    between = jnp.where(between < b.high, between, b.low)
    inside = (at + step > b.low) & (at + step < b.high) & ~stalled
    return jnp.where(open_ended, grown, jnp.where(inside, at + step, between))
