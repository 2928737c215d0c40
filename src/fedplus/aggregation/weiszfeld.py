"""The δ-geometric median: reweighted means, accelerated.

The minimiser of Σ_k a_k h(‖w_k − w‖), with h(r) = r − δ/2 beyond δ and r²/2δ within, is the fixed
point of w ↦ Σ_k p_k w_k with p_k ∝ a_k / max(‖w_k − w‖, δ) (Weiszfeld): each turn minimises a
quadratic that touches the sum at w and lies above it. Beside a party that bound is so steep that the
turns creep, so there the party's own term is kept as it is (Vardi and Zhang, 2000); the minimiser
then lies between that party and the mean of the others, and may be the party itself. Where all
parties lie nearly on a line the sum may be nearly flat; there a step is stretched to its lowest point.
Most often none of this is needed, and the ordinary turns of ``reweighted`` are all there are.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon, tiny
from fedplus.aggregation import native
from fedplus.aggregation.anderson import MEMORY, Visit, fixed_point
from fedplus.aggregation.certificate import ACCURACY, Split, above_least, envelope
from fedplus.aggregation.reweighted import Median, reweighted, short, steepest
from fedplus.aggregation.rows import distances, weighted_mean
from fedplus.aggregation.shares import agreed

MOST_TURNS = 300
LEAP = 8
"""A stretched step of at least so many steps is taken; shorter ones acceleration does better."""


def weiszfeld(
    w_local: Matrix, weights: Vector, delta: Array, start: Vector,
    begun: Sequence[Any] | None = None,
) -> Median:  # fmt: skip
    """Iterate until w stands still. ``begun``: what ``reweighted`` would find, if it is known.

    Converged: the next step is at most 1e-4 ``ACCURACY`` times the (harmonic) mean
    distance, and the height is within ``ACCURACY`` of the least one, as a bound from below shows.
    """
    eps = epsilon(w_local)
    ordinary, onwards = begun or reweighted(w_local, weights, delta, start)

    def look(w: Vector, slow: Array) -> Visit[Array]:
        models = native.taken_anew(w_local)
        r = distances(models, w)
        split = _split(models, weights, delta, w, r)
        others, held, place = split
        q = others / jnp.maximum(r, delta)
        slope = jnp.sum(q)
        alone = slope <= tiny(slope)
        mean = jnp.where(alone, place, weighted_mean(models, jnp.where(alone, weights, q)))
        # The minimiser of held·h(‖x − place‖) + slope/2 ‖x − mean‖².
        way = jnp.linalg.norm(mean - place)
        within = slope / (slope + held / delta)
        beyond = 1 - held / jnp.where(alone, 1, slope * jnp.maximum(way, delta))
        image = place + jnp.where(slope * (way - delta) <= held, within, beyond) * (mean - place)
        left = jnp.linalg.norm(image - w)
        typical = jnp.sum(others) / jnp.where(alone, 1, slope)
        pull = slope * (mean - w)
        low = above_least(split, pull, slope, delta, w, r)
        height = jnp.sum(weights * envelope(r, delta))
        size = jnp.linalg.norm(w)
        rounding = eps * (8 * height + held * size)
        done = short(left, typical, size) & (low <= ACCURACY * height + rounding)
        stretch = lax.cond(
            slow & ~done,
            lambda: _stretch(models, weights, delta, w, r, image - w),
            lambda: jnp.ones_like(left),
        )
        leap = stretch > LEAP
        image = jnp.where(leap, w + stretch * (image - w), image)
        back = held / jnp.maximum(jnp.linalg.norm(place - w), delta)
        return Visit(image, left, done, leap, jnp.linalg.norm(pull + back * (place - w)))

    # A loop of no turns where those were enough; a conditional would copy W.
    memory = min(MEMORY, *w_local.shape)
    w, visit, turns = fixed_point(look, onwards, MOST_TURNS, memory, ordinary.converged)
    # Every core went on by itself.
    w = lax.cond(ordinary.converged, lambda: w, lambda: agreed(w, w_local))
    unknown = jnp.zeros_like(ordinary.slope)
    further = Median(w, visit.left, visit.found, ordinary.turns + turns, visit.done, w, unknown)
    found: Median = jax.tree.map(partial(jnp.where, ordinary.converged), ordinary, further)
    return found


def _split(w_local: Matrix, weights: Vector, delta: Array, w: Vector, r: Vector) -> Split:
    """Apart from the others, the party that pulls w most steeply, if it makes up half of all."""
    nearest, steep = steepest(weights, delta, r, jnp.linalg.norm(w))

    def at_nearest() -> Split:
        place = w_local[nearest]
        there = distances(w_local, place) <= 4 * epsilon(w) * jnp.linalg.norm(place)
        return Split(jnp.where(there, 0, weights), jnp.sum(weights * there), place)

    def at_none() -> Split:
        return Split(weights, jnp.zeros_like(r[0]), w)

    split: Split = lax.cond(steep, at_nearest, at_none)
    return split


def _stretch(
    w_local: Matrix, weights: Vector, delta: Array, w: Vector, r: Vector, step: Vector
) -> Array:
    """The power of 2 by which to multiply the step so that it ends near its lowest point."""
    square = jnp.maximum(jnp.sum(step * step), tiny(w))
    along = (w_local @ step - jnp.sum(w * step)) / square  # Where each party is, in steps.
    across = jnp.maximum(r * r - along * along * square, 0)

    def halve(_: int, exponents: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = exponents
        middle = 0.5 * (low + high)
        ahead = along - 2.0**middle
        reach = jnp.maximum(jnp.sqrt(ahead * ahead * square + across), delta)
        downhill = jnp.sum(weights * ahead / reach) > 0
        return jnp.where(downhill, middle, low), jnp.where(downhill, high, middle)

    zero = jnp.zeros_like(square)
    low, _ = lax.fori_loop(0, 16, halve, (zero, zero + 30))
    stretch: Array = 2.0**low
    return stretch
