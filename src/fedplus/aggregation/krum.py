"""Krum and multi-Krum (Blanchard et al., 2017)."""

from typing import final

import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, direct_aggregate
from fedplus.check import require_integer


@final
@settings
class Krum(AbstractAggregator):
    """Krum, the model with the lowest score; multi-Krum, the mean of the ``keep`` best models.

    A model's score is the sum of its squared distances to its n − f − 2 nearest neighbours. A party of
    weight 0 is left out; other weights have no effect.

    Args:
        faulty: f, the largest number of faulty parties. The theorem requires n ≥ 2f + 3.
        keep: m, the number of best models that are averaged; 1 is Krum.

    Blanchard, El Mhamdi, Guerraoui and Stainer, Machine Learning with Adversaries: Byzantine Tolerant
    Gradient Descent, NeurIPS 2017.

    >>> Krum(faulty=1)([[1.0], [1.5], [2.0], [1.75], [900.0]]).w.tolist()
    [1.75]
    """

    faulty: int = static_field(default=1)
    keep: int = static_field(default=1)

    def __post_init__(self) -> None:
        for name, value, least in (("faulty", self.faulty, 0), ("keep", self.keep, 1)):
            require_integer(f"Krum.{name}", value, least, kinds=int)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        w_local = jnp.asarray(w_local)
        a = jnp.asarray(kernels.weights_or_ones(w_local, weights))
        counts = a > 0
        n = jnp.sum(counts)
        # Centred models lose less precision in the inner products.
        squares = squared_distances(w_local - kernels.medians(w_local, a))
        squares = jnp.where(counts[None, :], squares, jnp.inf)
        squares = jnp.where(jnp.eye(len(squares), dtype=bool), jnp.inf, squares)
        nearest = jnp.sort(squares, axis=1)
        neighbours = jnp.clip(n - self.faulty - 2, 1, jnp.maximum(n - 1, 1))
        # A model so far away that its squared distance is NaN gets the worst score.
        nearest = jnp.where(jnp.isnan(nearest), jnp.inf, nearest)
        is_counted = (jnp.arange(len(squares)) < neighbours) & (n > 1)
        score = jnp.sum(jnp.where(is_counted, nearest, 0), axis=1)
        # Parties of weight 0 come last, even after those with an infinite score.
        rank = jnp.argsort(jnp.lexsort((score, ~counts)))
        chosen = (rank < self.keep) & counts
        share = chosen.astype(w_local.dtype) / jnp.sum(chosen)
        return direct_aggregate(kernels.weighted_sum(w_local, share))


def squared_distances(rows: Matrix) -> Array:
    """Return (N, N), ‖w_i − w_j‖² of all pairs of rows, by one matrix product."""
    gram = jnp.matmul(rows, rows.T, precision=lax.Precision.HIGHEST)
    norms = jnp.diagonal(gram)
    # If a norm overflows, its row and column are infinite instead of NaN.
    norms = jnp.where(jnp.isfinite(norms), norms, jnp.inf)
    sums = norms[:, None] + norms[None, :]
    return jnp.where(jnp.isinf(sums), jnp.inf, jnp.maximum(sums - 2 * gram, 0))
