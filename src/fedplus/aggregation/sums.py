"""The mean of a W of which a few rows change: of the sum of all it is enough to know what these add.

The sum is kept in two halves, so that what is added loses nothing. What was added far from 0 and has
gone again may have left something behind; then, and after thousands of rounds, it is added up anew.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon
from fedplus.aggregation import native
from fedplus.aggregation.base import Aggregate, Change, exact
from fedplus.aggregation.rows import shared_mean


class Sum(NamedTuple):
    """What is remembered."""

    high: Vector
    """Σ_k w_k, rounded,"""
    low: Vector
    """and the rest of it."""
    lost: Array
    """A bound on what both miss."""


def nothing_known(w: Vector, parties: int) -> Sum | tuple[()]:
    """Of so many models such as w; (): nothing would be remembered."""
    if not native.usable(native.Shape((parties, w.size), w.dtype)):
        return ()
    return Sum(jnp.zeros_like(w), jnp.zeros_like(w), jnp.full((), jnp.inf, w.dtype))


def follow(w_local: Matrix, memory: Sum, change: Change) -> tuple[Aggregate, Sum]:
    """The mean, and what to remember."""
    n, now = len(w_local), w_local[change.rows]
    more = now - change.before
    by = jnp.matmul(jnp.ones_like(more[:, 0]), more, precision=lax.Precision.HIGHEST)
    # A sum and what its rounding left, whatever their sizes (Knuth).
    high = memory.high + by
    took = high - memory.high
    low = memory.low + ((memory.high - (high - took)) + (by - took))
    lost, most = bounds(memory, more, now, n, of=jnp)

    def misses_much(known: Sum) -> Array:
        much: Array = known.lost > most
        return much

    def anew(known: Sum) -> Sum:
        # Of what does not depend on ``known`` XLA takes care before the loop, needed or not.
        each = jnp.where(misses_much(known), jnp.ones(n, now.dtype), 0)
        return Sum(n * shared_mean(w_local, each), jnp.zeros_like(low), jnp.zeros_like(lost))

    # A loop of no turns, or of one; a conditional would copy W.
    known = lax.while_loop(misses_much, anew, Sum(high, low, lost))
    return exact((known.high + known.low) / n), known


def bounds(memory: Sum, more: Any, now: Any, parties: int, of: Any) -> tuple[Any, Any]:
    """On what the sum misses once more is added to it, and on what it may miss.

    By largest entries alone: of these every core finds the same, and so all go the same way. Of new
    models the one with the least counts, so that one far away does not hide what another one left.
    ``of``: JAX's functions, or NumPy's.
    """
    lost = epsilon(now) * len(now) ** 0.5 * of.max(of.abs(more), initial=0)
    if not len(now):
        return memory.lost, 0 * lost
    return memory.lost + lost, epsilon(now) * parties * of.min(of.max(of.abs(now), axis=1))
