"""Where the search for a geometric median begins."""

import jax.numpy as jnp
from jax import lax

from fedplus._types import Matrix, Vector
from fedplus.aggregation.median import median_of_few
from fedplus.aggregation.rows import distances, weighted_mean
from fedplus.aggregation.shares import agreed

START_ROWS = 31


def good_start(w_local: Matrix, weights: Vector) -> Vector:
    """The lowest in Σ a_k‖w_k − w‖ of: the coordinatewise median of a few rows, mean, heaviest party.

    The first spares the many turns that far outliers cost from the mean; the mean makes sure that the
    iteration does not begin amid a minority; a party with half of the weight is the median itself.
    """
    n = w_local.shape[0]
    size = min(n, START_ROWS)
    picked = [w_local[(2 * i + 1) * n // (2 * size)] for i in range(size)]
    median, heaviest = median_of_few(picked), w_local[jnp.argmax(weights)]
    # A sample of the columns is enough to tell the three apart.
    models = _some_columns(w_local)
    candidates = (
        _some_columns(median[None])[0],
        weighted_mean(models, weights),
        _some_columns(heaviest[None])[0],
    )
    heights = [jnp.sum(weights * distances(models, w)) for w in candidates]
    lowest = jnp.argmin(jnp.stack(heights))
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
