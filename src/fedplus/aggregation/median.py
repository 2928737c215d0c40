"""The exact coordinatewise median, weighted or not: the middle of all minimisers of Σ a_k|w_k − w|.

Up to 64 parties of equal weight a sorting network finds it in one pass. For more, each pass counts
the weight up to one point a coordinate, and every fourth one also finds the nearest parties on either
side, which closes the bracket on a party exactly, ties and all.
"""

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation import rows
from fedplus.aggregation.network import order_statistics
from fedplus.aggregation.search import MOST_PASSES, move, sample_rows

NETWORK_UP_TO = 64
NEAR = 6
"""So many parties from the middle, the search goes from neighbour to neighbour."""


def median_by_network(w_local: Matrix) -> Vector:
    """The median of at most ``NETWORK_UP_TO`` rows of equal weight."""
    n = w_local.shape[0]
    middle = order_statistics(list(w_local), ((n - 1) // 2, n // 2))
    return middle[0] if n % 2 else 0.5 * (middle[0] + middle[1])


def median_by_counting(
    w_local: Matrix, weights: Vector, start: Vector | None
) -> tuple[Vector, Array, Array]:
    """The weighted median, the passes it took, and whether every coordinate was closed."""
    weight = jnp.sum(weights)
    largest = jnp.max(weights)
    least = jnp.min(jnp.where(weights > 0, weights, largest))
    eps, tiny = jnp.finfo(w_local.dtype).eps, jnp.finfo(w_local.dtype).tiny
    tied = 4 * eps * weight
    median, spacing = sample_rows(w_local)
    spacing = spacing * (w_local.shape[0] / weight)

    def solve(reduce: rows.Reduce, at: Vector, spacing: Vector) -> tuple[Vector, ...]:
        State = tuple[Vector, Vector, Vector, Array, Array]

        def walk(at: Vector, total: Vector, low: Vector, high: Vector, passes: Array) -> Vector:
            least_step = eps * jnp.abs(at) + tiny
            step = 0.5 * total * spacing + jnp.sign(total) * least_step
            return move(at, step, low, high, passes, every=3)

        def count(state: State) -> State:
            low, high, at, _, passes = state
            (up_to,) = reduce(lambda w_k, a_k: (jnp.where(w_k <= at, a_k, 0),), ("sum",))
            total = weight - 2 * up_to
            low = jnp.where(total > tied, jnp.maximum(low, at), low)
            high = jnp.where(total < -tied, jnp.minimum(high, at), high)
            near = jnp.abs(total) <= NEAR * largest
            at = jnp.where(near, at, walk(at, total, low, high, passes))
            return low, high, at, jnp.all(near), passes + 1

        def close(state: State) -> State:
            low, high, at, all_near, passes = state

            def term(w_k: Array, a_k: Array) -> tuple[Array, ...]:
                lower = w_k <= at
                return (
                    jnp.where(lower, a_k, 0),
                    jnp.where(lower, w_k, -jnp.inf),
                    jnp.where(lower, jnp.inf, w_k),
                )

            up_to, below, above = reduce(term, ("sum", "max", "min"))
            total = weight - 2 * up_to
            # With less than one party's weight to go, the neighbour itself is the median.
            low = jnp.where(total > tied, above, jnp.where(total > -2 * least, below, low))
            high = jnp.where(total < -tied, below, jnp.where(total < 2 * least, above, high))
            halves = jnp.abs(total) <= tied
            low, high = (jnp.where(halves, 0.5 * (below + above), end) for end in (low, high))
            near = jnp.abs(total) <= NEAR * largest
            neighbour = jnp.where(total > 0, above, jnp.nextafter(below, -jnp.inf))
            onwards = jnp.where(near, neighbour, walk(at, total, low, high, passes))
            at = jnp.where(halves, at, onwards)
            return low, high, at, all_near, passes + 1

        def look(state: State) -> State:
            *_, all_near, passes = state
            return lax.cond(all_near | (passes % 6 == 5), close, count, state)

        def unsolved(state: State) -> Array:
            low, high, *_, passes = state
            return jnp.any(low != high) & (passes < MOST_PASSES)

        infinite = jnp.full_like(at, jnp.inf)
        opened = (-infinite, infinite, at, jnp.zeros((), bool), jnp.zeros((), jnp.int32))
        low, high, at, _, passes = lax.while_loop(unsolved, look, opened)
        return jnp.where(low == high, low, at), jnp.full(at.shape, passes), low == high

    w, passes, closed = rows.by_columns(
        solve, w_local, weights, median if start is None else start, spacing
    )
    return w, jnp.max(passes), jnp.all(closed)
