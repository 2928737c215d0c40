"""The exact coordinatewise median, weighted or not: the middle of all minimisers of Σ a_k|w_k − w|.

Up to 64 parties of equal weight a sorting network finds it in one pass. For more, a pass counts the
weight up to one point a coordinate, until all are a few parties from the middle; then a pass also
finds the nearest party on either side, which closes the bracket on a party exactly, ties and all.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon, tiny
from fedplus.aggregation import columns, native
from fedplus.aggregation.bracket import Bracket, move, narrow, nowhere
from fedplus.aggregation.network import order_statistics
from fedplus.aggregation.search import MOST_PASSES, NEAR, sample_rows
from fedplus.aggregation.shares import share_of

NETWORK_UP_TO = 64


class _State(NamedTuple):
    bracket: Bracket  # no median is outside
    at: Vector  # where the next pass looks
    all_near: Array
    passes: Array


def median_by_network(w_local: Matrix) -> Vector:
    """The median of at most ``NETWORK_UP_TO`` rows of equal weight."""
    return median_of_few(list(w_local))


def median_of_few(rows: list[Vector]) -> Vector:
    """The same of rows that are not one array."""
    n = len(rows)
    middle = order_statistics(rows, ((n - 1) // 2, n // 2))
    return middle[0] if n % 2 else 0.5 * (middle[0] + middle[1])


def median_by_counting(
    w_local: Matrix, weights: Vector, start: Vector | None
) -> tuple[Vector, Array, Array]:
    """The weighted median, the passes it took, and whether every coordinate was closed."""
    median, spacing = sample_rows(w_local)
    begin, spacing = median if start is None else start, spacing * (len(weights) / jnp.sum(weights))
    if native.usable(w_local):
        share = share_of(w_local.shape[1], w_local)
        steps = native.walk_of(start is not None)
        found = native.medians(w_local, weights, begin, spacing, share, steps)
        w, passes, closed = share.of_all_at_once(*found)
        return w, jnp.max(passes).astype(jnp.int32), jnp.all(closed > 0)
    weight, largest = jnp.sum(weights), jnp.max(weights)
    least = jnp.min(jnp.where(weights > 0, weights, largest))
    tied = 4 * epsilon(w_local) * weight

    def walk(at: Vector, total: Vector, spacing: Vector, before: Bracket, after: _State) -> Vector:
        least_step = epsilon(at) * jnp.abs(at) + tiny(at)
        step = 0.5 * total * spacing + jnp.sign(total) * least_step
        b = after.bracket
        # The counts at both ends tell how the parties lie in between better than a few rows do.
        step = jnp.where((b.low == -jnp.inf) | (b.high == jnp.inf), step, jnp.inf)
        return move(before, b, at, step, after.passes)

    def solve(reduce: columns.Reduce, at: Vector, spacing: Vector) -> tuple[Vector, ...]:
        def count(s: _State) -> _State:
            (up_to,) = reduce(lambda w_k, a_k: (jnp.where(w_k <= s.at, a_k, 0),), ("sum",))
            total = weight - 2 * up_to
            near = jnp.abs(total) <= NEAR * largest
            b = narrow(s.bracket, s.at, jnp.where(jnp.abs(total) > tied, total, 0))
            after = _State(b, s.at, jnp.all(near), s.passes + 1)
            onwards = walk(s.at, total, spacing, s.bracket, after)
            return after._replace(at=jnp.where(near, s.at, onwards))

        def close(s: _State) -> _State:
            def neighbours(w_k: Array, a_k: Array) -> tuple[Array, ...]:
                lower = w_k <= s.at
                below, above = jnp.where(lower, w_k, -jnp.inf), jnp.where(lower, jnp.inf, w_k)
                return jnp.where(lower, a_k, 0), below, above

            up_to, below, above = reduce(neighbours, ("sum", "max", "min"))
            total = weight - 2 * up_to
            halves = jnp.abs(total) <= tied
            # With less than one party's weight to go, the neighbour itself is the median.
            b = narrow(s.bracket, s.at, jnp.where(halves, 0, total))
            low = jnp.where(total > tied, above, jnp.where(total > -2 * least, below, b.low))
            high = jnp.where(total < -tied, below, jnp.where(total < 2 * least, above, b.high))
            middle = 0.5 * (below + above)
            b = b._replace(low=jnp.where(halves, middle, low), high=jnp.where(halves, middle, high))
            after = s._replace(bracket=b, passes=s.passes + 1)
            just_under = below - epsilon(below) * jnp.abs(below) - tiny(below)
            neighbour = jnp.where(total > 0, above, just_under)
            near = jnp.abs(total) <= NEAR * largest
            onwards = jnp.where(near, neighbour, walk(s.at, total, spacing, s.bracket, after))
            return after._replace(at=jnp.where(halves, s.at, onwards))

        def look(s: _State) -> _State:
            after: _State = lax.cond(s.all_near | (s.passes % 6 == 5), close, count, s)
            return after

        def unsolved(s: _State) -> Array:
            return jnp.any(s.bracket.low != s.bracket.high) & (s.passes < MOST_PASSES)

        first = _State(nowhere(at), at, jnp.array(False), jnp.zeros((), jnp.int32))
        last = lax.while_loop(unsolved, look, first)
        closed = last.bracket.low == last.bracket.high
        w = jnp.where(closed, last.bracket.low, last.at)
        return w, jnp.full(at.shape, last.passes), closed

    w, passes, closed = columns.by_columns(solve, w_local, weights, begin, spacing)
    return w, jnp.max(passes), jnp.all(closed)
