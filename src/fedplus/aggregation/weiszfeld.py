"""The δ-geometric median: reweighted means, accelerated.

The minimiser of Σ_k a_k h(‖w_k − w‖), with h(r) = r beyond δ and quadratic within, is the fixed point
of w ↦ Σ_k p_k w_k with p_k ∝ a_k / max(‖w_k − w‖, δ) (Weiszfeld). It is a combination of the parties'
models, so the iteration runs on the N weights p; each turn costs two passes over W, one for w and one
for the distances.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation.anderson import Visit, fixed_point
from fedplus.aggregation.median import median_by_network
from fedplus.aggregation.rows import distances, weighted_mean

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
    w_local: Matrix, weights: Vector, delta: Array, start: Vector, accuracy: Array | float
) -> Median:
    """Iterate until the step left is at most ``accuracy`` times the parties' median distance."""
    eps = jnp.finfo(w_local.dtype).eps

    def reweigh(r: Vector) -> Vector:
        q = weights / jnp.maximum(r, delta)
        return q / jnp.sum(q)

    def look(p: Vector) -> Visit[tuple[Vector, Vector]]:
        w = weighted_mean(w_local, p)
        r = distances(w_local, w)
        q = reweigh(r)
        left = jnp.sum(jnp.abs(q - p) * r)  # Bounds ‖Σ (q − p)(w_k − w)‖.
        typical = jnp.maximum(jnp.median(r), eps * jnp.max(r))
        done = left <= accuracy * typical + 4 * eps * jnp.linalg.norm(w)
        return Visit(q, left, done, (w, r))

    visit, turns = fixed_point(look, reweigh(distances(w_local, start)), MOST_TURNS)
    w, r = visit.found
    return Median(w, r, visit.left, turns, visit.done)


def good_start(w_local: Matrix, weights: Vector) -> Vector:
    """The coordinatewise median of a few rows, or the mean if that is lower in Σ a_k‖w_k − w‖.

    The former spares the many turns that far outliers cost from the mean; the latter makes sure that
    the iteration does not begin amid a minority.
    """
    n = w_local.shape[0]
    size = min(n, START_ROWS)
    median = median_by_network(
        w_local[jnp.array([(2 * i + 1) * n // (2 * size) for i in range(size)])]
    )
    mean = weighted_mean(w_local, weights)
    heights = [jnp.sum(weights * distances(w_local, w)) for w in (median, mean)]
    return jnp.where(heights[0] <= heights[1], median, mean)
