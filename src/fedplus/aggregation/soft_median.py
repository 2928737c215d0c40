"""The δ-coordinatewise median: an exact root a coordinate.

    G(w) = Σ_k a_k clip((w_k − w)/δ, −1, 1) = 0,    piecewise linear and non-increasing.

Each pass over W evaluates G and its slope; Newton's step is exact once no breakpoint w_k ± δ lies
between. It starts at last round's w̃ or else at the exact median, which is never further than δ from
the root. Where half of the weight pulls with full strength on either side the root is an interval;
the paper's recursion starts at the mean and stops at the interval's nearest point, and so do we.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation import rows
from fedplus.aggregation.search import MOST_PASSES, move


class SoftMedian(NamedTuple):
    """A root a coordinate, and what it took."""

    w: Vector
    left: Array  # ‖·‖₂ of how far the recursion would move it, Σ_k a_k clip(w_k − w, −δ, δ) / Σ a_k
    passes: Array
    converged: Array


def soft_median(
    w_local: Matrix, weights: Vector, delta: Array, mean: Vector, start: Vector, spacing: Vector
) -> SoftMedian:
    """The root in every coordinate; ``spacing``: how far w moves past one of N parties, about."""
    eps = jnp.finfo(w_local.dtype).eps
    weight, largest = jnp.sum(weights), jnp.max(weights)
    spacing = spacing * (w_local.shape[0] / weight)

    def solve(
        reduce: rows.Reduce, mean: Vector, start: Vector, spacing: Vector
    ) -> tuple[Vector, ...]:
        State = tuple[Vector, Vector, Vector, Vector, Array, Array]

        def look(state: State) -> State:
            low, high, at, _, _, passes = state

            def pull(w_k: Array, a_k: Array) -> tuple[Array, ...]:
                x = w_k - at
                return a_k * jnp.clip(x * (1 / delta), -1, 1), jnp.where(jnp.abs(x) < delta, a_k, 0)

            total, free = reduce(pull, ("sum", "sum"))
            level = (free == 0) & (jnp.abs(total) <= 4 * eps * weight)
            low = jnp.where(total > 0, jnp.maximum(low, at), low)
            high = jnp.where(total < 0, jnp.minimum(high, at), high)
            newton = delta * total / jnp.where(free > 0, free, 1)
            far = 0.5 * total * spacing + jnp.sign(total) * delta
            is_near = jnp.abs(total) <= free
            following = move(at, jnp.where(is_near, newton, far), low, high, passes, 6)
            rounding = eps * (2 * jnp.abs(at) + 0.5 * delta * weight / largest)
            settled = is_near & (jnp.abs(newton) <= rounding)
            closed = high - low <= eps * jnp.abs(at)
            following = jnp.where(settled, at + newton, jnp.where(level | closed, at, following))
            return low, high, following, level, jnp.all(settled | level | closed), passes + 1

        def unsolved(state: State) -> Array:
            return ~state[4] & (state[5] < MOST_PASSES)

        infinite, no = jnp.full_like(start, jnp.inf), jnp.zeros(start.shape, bool)
        opened = (-infinite, infinite, start, no, jnp.zeros((), bool), jnp.zeros((), jnp.int32))
        _, _, at, level, done, passes = lax.while_loop(unsolved, look, opened)

        def full_strength(w_k: Array, a_k: Array) -> tuple[Array, ...]:
            x = w_k - at
            return jnp.where(x <= -delta, w_k, -jnp.inf), jnp.where(x >= delta, w_k, jnp.inf)

        def nearest_to_mean(at: Vector) -> Vector:
            below, above = reduce(full_strength, ("max", "min"))
            return jnp.where(level, jnp.clip(mean, below + delta, above - delta), at)

        w = lax.cond(jnp.any(level), nearest_to_mean, lambda at: at, at)
        (left,) = reduce(
            lambda w_k, a_k: (a_k * jnp.clip((w_k - w) * (1 / delta), -1, 1),), ("sum",)
        )
        return w, left * (delta / weight), jnp.full(w.shape, passes), jnp.full(w.shape, done)

    w, left, passes, done = rows.by_columns(solve, w_local, weights, mean, start, spacing)
    return SoftMedian(w, jnp.linalg.norm(left), jnp.max(passes), jnp.all(done))
