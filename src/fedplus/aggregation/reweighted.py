"""The ordinary turns of a geometric median: reweighted means, and a secant's step in between.

One or two passes over W a turn, and little else. In models as training leaves them one direction,
that of the outliers, converges much more slowly than all others: the step that would cancel the last
two residuals if the iteration were linear (Anderson's with a memory of one) takes care of it. The turns
end where w stands still, or where they are not the right ones: beside a party, or when one does not
halve what is left.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon, tiny
from fedplus.aggregation.certificate import ACCURACY, above_by_pull, envelope
from fedplus.aggregation.rows import reweigh
from fedplus.aggregation.shares import agreed

MOST_TURNS = 12
LEAST_SPRING = 1e-3
"""δ of a spring, as a share of ‖w‖ and the mean distance."""
SAME = 1e-5
"""Parties whose distances differ by this share may be at one place; among many entries most differ
by less than a hundredth."""


class Median(NamedTuple):
    """Where an iteration stopped."""

    w: Vector
    left: Array  # ‖·‖₂ of the next step
    pull: Array  # ‖Σ_k a_k (w_k − w) / max(‖w_k − w‖, δ)‖₂
    turns: Array
    converged: Array
    ahead: Vector  # where the next step would lead
    slope: Array  # Σ_k a_k / max(‖w_k − w‖, δ); 0: not known


class _State(NamedTuple):
    w: Vector
    image: Vector
    w_before: Vector
    image_before: Vector
    left: Array
    left_before: Array
    pull: Array
    slope: Array
    turns: Array
    converged: Array
    ordinary: Array


def reweighted(
    w_local: Matrix, weights: Vector, delta: Array, start: Vector
) -> tuple[Median, Vector]:
    """Where the turns ended, and where others may go on from."""
    eps = epsilon(w_local)

    def turn(s: _State) -> _State:
        w = s.image - _share(s) * (s.image - s.image_before)
        r, q, image = reweigh(w_local, weights, delta, w)
        slope = jnp.sum(q)
        left, size = jnp.linalg.norm(image - w), jnp.linalg.norm(w)
        pull = slope * left
        height = jnp.sum(weights * envelope(r, delta))
        low = above_by_pull(pull, slope, delta, size, weights, r)
        done = short(left, jnp.sum(weights) / slope, size)
        done &= low <= (ACCURACY + 8 * eps) * height
        nearest, beside = steepest(weights, delta, r, size)
        # Well within a δ that is not tiny, a party is a spring: turns do not creep there.
        scale = size + jnp.sum(weights * r) / jnp.sum(weights)
        beside &= (r[nearest] > 0.5 * delta) | (delta < LEAST_SPRING * scale)
        ordinary = ~beside & (left <= 0.5 * s.left)
        converged, ordinary = agreed(jnp.stack([done & ~beside, ordinary]), w_local)
        return _State(
            w, image, s.w, s.image, left, s.left, pull, slope, s.turns + 1, converged, ordinary
        )  # fmt: skip

    def unfinished(s: _State) -> Array:
        return ~s.converged & s.ordinary & (s.turns < MOST_TURNS)

    infinite, yes = jnp.full((), jnp.inf, w_local.dtype), jnp.array(True)
    zero = jnp.zeros((), jnp.int32)
    first = _State(
        start, start, start, start, infinite, infinite, infinite, infinite, zero, ~yes, yes
    )  # fmt: skip
    last = lax.while_loop(unfinished, turn, first)
    onwards = jnp.where(last.left <= last.left_before, last.image, last.image_before)
    found = Median(
        last.w, last.left, last.pull, last.turns, last.converged, last.image, last.slope
    )  # fmt: skip
    return found, onwards


def _share(s: _State) -> Array:
    """How much of the way back to the image before would cancel the residual."""
    residual = s.image - s.w
    change = residual - (s.image_before - s.w_before)
    square = jnp.sum(change * change)
    share = jnp.sum(change * residual) / jnp.maximum(square, tiny(square))
    return jnp.where(s.turns > 1, share, 0)


def short(left: Array, typical: Array, size: Array) -> Array:
    """Whether a step is at most 1e-4 ``ACCURACY`` of the typical distance, rounding aside."""
    eps = epsilon(left)
    is_short: Array = left <= max(1e-4 * ACCURACY, 4 * eps) * typical + 4 * eps * size
    return is_short


def steepest(weights: Vector, delta: Array, r: Vector, size: Array) -> tuple[Array, Array]:
    """The party that pulls most steeply, and whether those at its place may make up half of all.

    ``size`` is ‖w‖, which tells how far rounding may move a party.
    """
    nearest = jnp.argmax(weights / jnp.maximum(r, delta))
    reach = jnp.maximum(r[nearest], delta)
    steepness = weights * (reach / jnp.maximum(r, delta))
    maybe_there = jnp.abs(r - r[nearest]) <= SAME * r[nearest] + 8 * epsilon(r) * size
    return nearest, 2 * jnp.sum(steepness * maybe_there) >= jnp.sum(steepness)
