"""The δ-geometric median: reweighted means, accelerated.

The minimiser of Σ_k a_k h(‖w_k − w‖), with h(r) = r beyond δ and quadratic within, is the fixed point
of w ↦ Σ_k p_k w_k with p_k ∝ a_k / max(‖w_k − w‖, δ) (Weiszfeld). It is a combination of the parties'
models, so the iteration runs on the N weights p; each turn costs two passes over W, one for w and one
for the distances.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon
from fedplus.aggregation.anderson import Visit, fixed_point
from fedplus.aggregation.median import median_by_network
from fedplus.aggregation.rows import distances, weighted_mean

ACCURACY = 1e-6
IMBALANCE = 1e-3
MOST_TURNS = 300
START_ROWS = 31


class Median(NamedTuple):
    """Where the iteration stopped."""

    w: Vector
    distances: Vector
    left: Array
    turns: Array
    converged: Array


def weiszfeld(
    w_local: Matrix, weights: Vector, radius: Callable[[Vector], Array], start: Vector
) -> Median:
    """Iterate until w stands still; ``radius`` gives δ from the distances, if it is to depend on them.

    A step shorter than a hundredth of ``ACCURACY`` times the typical distance counts as none, since
    near a party that is almost the median the steps are far shorter than the way that is left.
    """
    eps = epsilon(w_local)
    accuracy = max(0.01 * ACCURACY, 4 * eps)

    def reweigh(r: Vector, delta: Array) -> Vector:
        reach = jnp.maximum(r, delta)
        q = weights * (jnp.min(reach) / reach)  # Scaled, so that a tiny δ cannot overflow.
        return q / jnp.sum(q)

    def look(p: Vector) -> Visit[tuple[Vector, Vector]]:
        w = weighted_mean(w_local, p)
        r = distances(w_local, w)
        delta = radius(r)
        q = reweigh(r, delta)
        left = jnp.sum(jnp.abs(q - p) * r)  # Bounds ‖Σ (q − p)(w_k − w)‖.
        short = left <= accuracy * typical(r, weights) + 4 * eps * jnp.linalg.norm(w)
        # Beside a party steps are short although the pulls, of at most 1 each, do not balance yet.
        slope = jnp.sum(jnp.where(r > delta, weights / jnp.maximum(r, delta), 0))
        balanced = left * slope <= IMBALANCE * jnp.sum(weights)
        return Visit(q, left, short & balanced, (w, r))

    def begin(at: Vector) -> Vector:
        """Weights to begin with: near a party that is the median, all on it; near another, not."""
        r = distances(w_local, at)
        apart = 0.1 * typical(r, weights)
        apart_from_it = reweigh(r, jnp.maximum(radius(r), apart))

        def ask_party() -> Vector:
            party = w_local[jnp.argmin(jnp.where(weights > 0, r, jnp.inf))]
            from_party = distances(w_local, party)
            there = from_party <= radius(from_party)
            others = jnp.where(there, 0, weights / jnp.where(there, 1, from_party))
            pull = jnp.linalg.norm(others @ w_local - jnp.sum(others) * party)
            at_party = reweigh(from_party, radius(from_party))
            return jnp.where(pull <= jnp.sum(weights * there), at_party, apart_from_it)

        chosen: Vector = lax.cond(jnp.min(r) < apart, ask_party, lambda: apart_from_it)
        return chosen

    visit, turns = fixed_point(look, begin(start), MOST_TURNS)

    def is_it_a_party() -> Visit[tuple[Vector, Vector]]:
        again = look(begin(visit.found[0]))
        chosen: Visit[tuple[Vector, Vector]] = jax.tree.map(
            lambda a, b: jnp.where(again.done, a, b), again, visit
        )
        return chosen

    # Where a party just holds the rest in balance the steps shrink without end.
    visit = lax.cond(visit.done, lambda: visit, is_it_a_party)
    w, r = visit.found
    return Median(w, r, visit.left, turns, visit.done)


def typical(r: Vector, weights: Vector) -> Array:
    """The weighted median distance; if most are at w itself, the rounding of the farthest one's."""
    order = jnp.argsort(r)
    total = jnp.cumsum(weights[order])
    middle = r[order[jnp.searchsorted(total, 0.5 * total[-1])]]
    return jnp.maximum(middle, epsilon(r) * jnp.max(r))


def good_start(w_local: Matrix, weights: Vector) -> Vector:
    """The lowest in Σ a_k‖w_k − w‖ of: the coordinatewise median of a few rows, mean, heaviest party.

    The first spares the many turns that far outliers cost from the mean; the mean makes sure that the
    iteration does not begin amid a minority; a party with half of the weight is the median itself.
    """
    n = w_local.shape[0]
    size = min(n, START_ROWS)
    picked = jnp.array([(2 * i + 1) * n // (2 * size) for i in range(size)])
    median = median_by_network(w_local[picked])
    mean = weighted_mean(w_local, weights)
    candidates = jnp.stack([median, mean, w_local[jnp.argmax(weights)]])
    # A sample of the columns is enough to tell the three apart.
    models, points = _some_columns(w_local), _some_columns(candidates)
    heights = jnp.stack([jnp.sum(weights * distances(models, point)) for point in points])
    return candidates[jnp.argmin(heights)]


def _some_columns(w_local: Matrix) -> Matrix:
    d = w_local.shape[1]
    if d <= 2048:
        return w_local
    return jnp.concatenate([w_local[:, i * d // 4 : i * d // 4 + 256] for i in range(4)], axis=1)
