"""How near the least height Σ_k a_k h(‖w_k − w‖) a point is, without knowing the minimiser."""

from typing import NamedTuple

import jax.numpy as jnp

from fedplus._types import Array, Vector, epsilon, tiny

ACCURACY = 1e-6
"""Of the height Σ_k a_k h, relative; rounding of w may add to it."""


class Split(NamedTuple):
    """All parties but those at one place, which may be none."""

    weights: Vector  # of the others, 0 for those at the place
    held: Array  # the weight at the place
    place: Vector


def above_least(
    split: Split, pull: Vector, slope: Array, delta: Array, w: Vector, r: Vector
) -> Array:
    """A bound on how much higher w is than the minimiser.

    Any pull y of the parties at the place, ‖y‖ ≤ held, bounds the least height from below (Fenchel);
    y is taken to balance the others' pull as far as it can. What is left of that, times the distance
    of the minimiser, adds to the bound.
    """
    others, held, place = split
    strength = jnp.linalg.norm(pull)
    y = -pull * jnp.minimum(1, held / jnp.maximum(strength, tiny(strength)))
    away = place - w
    there = held * envelope(jnp.linalg.norm(away), delta)
    slack = there - jnp.sum(y * away)
    slack += 0.5 * delta * jnp.sum(y * y) / jnp.where(held > 0, held, 1)
    unbalanced = strength - held
    return slack + above_by_pull(
        unbalanced, slope, delta, jnp.linalg.norm(w), others, r, held, there
    )


def above_by_pull(
    strength: Array, slope: Array, delta: Array, size: Array, weights: Vector, r: Vector,
    held: Array | float = 0.0, there: Array | float = 0.0,
) -> Array:  # fmt: skip
    """The same from the strength of the pull alone, at a w of this size, where no party is beside it.

    ``held`` and ``there`` are weight and height of parties that are not in ``weights``.
    """
    weight = jnp.sum(weights) + held
    rounding = 8 * epsilon(size) * (slope * size + weight)
    unbalanced = jnp.maximum(strength - rounding, 0)
    # Parties well within δ resist like springs; failing that, Σ a_k‖w − w*‖ ≤ Σ a_k(r_k + r_k*).
    spring = jnp.sum(jnp.where(r <= 0.5 * delta, weights, 0)) / delta
    height = jnp.sum(weights * envelope(r, delta)) + there
    distance = jnp.where(
        unbalanced < 0.5 * delta * spring,
        unbalanced / jnp.where(spring > 0, spring, 1),
        2 * height / weight + delta,
    )
    return unbalanced * distance


def envelope(r: Array, delta: Array) -> Array:
    """h(r): r − δ/2 beyond δ, r²/2δ within."""
    return jnp.where(r > delta, r - 0.5 * delta, 0.5 * r * r / delta)
