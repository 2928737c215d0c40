"""The δ-coordinatewise median: an exact root a coordinate.

    G(w) = Σ_k a_k clip((w_k − w)/δ, −1, 1) = 0,    piecewise linear and non-increasing.

Each pass over W evaluates G and its slope; Newton's step is exact once no breakpoint w_k ± δ lies
between. By itself it may go round in circles, so it is held within a bracket. It starts at last
round's w̃ or else near the median, which is never further than δ from the root. Where half of the
weight pulls with full strength on either side the root is an interval; the paper's recursion starts
at the mean and stops at the interval's nearest point, and so do we.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon
from fedplus.aggregation import columns, native
from fedplus.aggregation.bracket import Bracket, move, narrow, nowhere
from fedplus.aggregation.search import MOST_PASSES
from fedplus.aggregation.shares import share_of


class SoftMedian(NamedTuple):
    """A root a coordinate, and what it took."""

    w: Vector
    left: Array  # ‖·‖₂ of how far the recursion would move it: Σ_k a_k clip(w_k − w, −δ, δ) / Σ a_k
    passes: Array
    converged: Array


class _State(NamedTuple):
    bracket: Bracket
    at: Vector  # where the next pass looks
    pull: Vector  # mean of clip(w_k − w, −δ, δ) where the last pass looked
    level: Vector  # whether the root is an interval around it
    done: Array
    passes: Array


def soft_median(
    w_local: Matrix, weights: Vector, delta: Array, start: Vector, spacing: Vector, *, near: bool
) -> SoftMedian:
    """The root in every coordinate, from ``start``, which may be ``near`` to it.

    ``spacing``: how far w moves past one of N parties, about.
    """
    eps = epsilon(w_local)
    weight, largest = jnp.sum(weights), jnp.max(weights)
    steps = native.steps_of(near, delta, spacing)
    spacing = spacing * (w_local.shape[0] / weight)
    if native.usable(w_local):
        share = share_of(w_local.shape[1], w_local)
        found = native.soft_medians(w_local, weights, delta, start, spacing, share, steps)
        return of_columns(share.of_all_at_once(*found), weight)

    def edge(at: Vector) -> Array:
        """δ less what rounding may hide, so that a party at the end of an interval pulls in full."""
        rounding = 2 * eps * jnp.max(jnp.abs(at))
        return jnp.maximum((1 - 4 * eps) * delta - rounding, 0.5 * delta)

    def solve(reduce: columns.Reduce, start: Vector, spacing: Vector) -> tuple[Vector, ...]:
        def look(s: _State) -> _State:
            inner = edge(s.at)
            inverse = 1 / inner

            def pull_and_slope(w_k: Array, a_k: Array) -> tuple[Array, ...]:
                x = w_k - s.at
                return a_k * jnp.clip(x * inverse, -1, 1), jnp.where(jnp.abs(x) < inner, a_k, 0)

            total, free = reduce(pull_and_slope, ("sum", "sum"))
            b = narrow(s.bracket, s.at, total)
            newton = inner * total / jnp.where(free > 0, free, 1)
            rounding = eps * (2 * jnp.abs(s.at) + 0.5 * delta * weight / largest)
            near = jnp.abs(total) <= free
            settled = near & (jnp.abs(newton) <= rounding) & (free > 0)
            level = (free == 0) & (jnp.abs(total) <= 4 * eps * weight)
            closed = b.high - b.low <= eps * jnp.abs(s.at)
            far = 0.5 * total * spacing + jnp.sign(total) * delta
            onwards = move(s.bracket, b, s.at, jnp.where(free > 0, newton, far), s.passes)
            at = jnp.where(settled, s.at + newton, jnp.where(level | closed, s.at, onwards))
            done = jnp.all(settled | level | closed)
            return _State(b, at, total * (inner / weight), level, done, s.passes + 1)

        no = jnp.zeros(start.shape, bool)
        none, zero = jnp.full_like(start, jnp.inf), jnp.zeros((), jnp.int32)
        first = _State(nowhere(start), start, none, no, jnp.array(False), zero)
        last = lax.while_loop(lambda s: ~s.done & (s.passes < MOST_PASSES), look, first)

        inner = edge(last.at)

        def ends_and_mean(w_k: Array, a_k: Array) -> tuple[Array, ...]:
            x = w_k - last.at
            below, above = (
                jnp.where(x <= -inner, w_k, -jnp.inf),
                jnp.where(x >= inner, w_k, jnp.inf),
            )
            return below, above, w_k * (a_k / weight)

        def nearest_to_mean(at: Vector) -> Vector:
            below, above, mean = reduce(ends_and_mean, ("max", "min", "sum"))
            return jnp.where(last.level, jnp.clip(mean, below + delta, above - delta), at)

        w = lax.cond(jnp.any(last.level), nearest_to_mean, lambda at: at, last.at)
        # Where it is done, the last step was one of rounding.
        return w, last.pull, jnp.full(w.shape, last.passes), jnp.full(w.shape, last.done)

    w, left, passes, done = columns.by_columns(solve, w_local, weights, start, spacing)
    return SoftMedian(w, jnp.linalg.norm(left), jnp.max(passes), jnp.all(done))


def of_columns(found: tuple[Vector, ...], weight: Array | float) -> SoftMedian:
    """From what each column tells: w, Σ_k a_k clip(w_k − w, −δ, δ), passes, and whether it is done."""
    w, pull, passes, done = found
    left, most = jnp.linalg.norm(pull) / weight, jnp.max(passes).astype(jnp.int32)
    return SoftMedian(w, left, most, jnp.all(done > 0))
