"""Where the search for a geometric median begins."""

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation import native
from fedplus.aggregation.median import median_of_few
from fedplus.aggregation.rows import distances, weighted_mean
from fedplus.aggregation.search import evenly
from fedplus.aggregation.shares import agreed

START_ROWS = 21


def start_of(w_local: Matrix, weights: Vector, delta: Array, given: Vector | None) -> Vector:
    """Where to begin: of a few parties, near the end; else where one is told, or at a good place."""
    if len(w_local) <= native.FEW and native.usable(w_local):
        return native.near_median(w_local, weights, delta)
    return good_start(w_local, weights) if given is None else given


def good_start(w_local: Matrix, weights: Vector) -> Vector:
    """The lowest in Σ a_k‖w_k − w‖ of: the coordinatewise median of a few rows, mean, heaviest party.

    The first spares the many turns that far outliers cost from the mean; the mean makes sure that the
    iteration does not begin amid a minority; a party with half of the weight is the median itself.
    """
    n = w_local.shape[0]
    picked = [w_local[row] for row in evenly(n, min(n, START_ROWS))]
    median, heaviest = median_of_few(picked), w_local[jnp.argmax(weights)]
    # A sample of the columns is enough to tell the three apart.
    models = _some_columns(w_local)
    candidates = (
        _some_columns(median[None])[0],
        weighted_mean(models, weights),
        _some_columns(heaviest[None])[0],
    )
    away = jnp.stack([distances(models, w) for w in candidates])
    # Differences first: beside the distances of far outliers, those of all others are lost in a sum.
    higher = (away - away[0]) @ weights
    # Beside a party with less than that, turns creep, even where it is lower than the others.
    holds_half = 2 * jnp.max(weights) >= jnp.sum(weights)
    lowest = jnp.argmin(higher.at[2].set(jnp.where(holds_half, higher[2], jnp.inf)))
    start = lax.cond(
        lowest == 1,
        lambda: weighted_mean(w_local, weights),
        lambda: jnp.where(lowest == 0, median, heaviest),
    )
    return agreed(start, w_local)


def _some_columns(w_local: Matrix) -> Matrix:
    d = w_local.shape[1]
    if d <= 2048:
        return w_local
    return jnp.concatenate([w_local[:, i * d // 4 : i * d // 4 + 256] for i in range(4)], axis=1)
