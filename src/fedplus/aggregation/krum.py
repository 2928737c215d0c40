"""Krum and multi-Krum (Blanchard et al., 2017)."""

from typing import final

import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, exact_aggregate
from fedplus.check import require_integer


@final
@settings
class Krum(AbstractAggregator):
    """The model that is nearest to its neighbours; multi-Krum: the mean of the ``keep`` nearest ones.

    A model's score is the sum of its squared distances to its n − f − 2 nearest others. A weight only
    says whether a party counts (0: not).

    Args:
        faulty: f, so many parties may be faulty; n ≥ 2f + 3 is what its theorem asks for.
        keep: m, how many of the best models are averaged; 1 is Krum.

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
        each = jnp.asarray(kernels.weights_or_ones(w_local, weights))
        counts = each > 0
        n = jnp.sum(counts)
        # About a point amid the parties: else products of large numbers would drown the differences.
        apart = squared_distances(w_local - kernels.medians(w_local, each))
        apart = jnp.where(counts[None, :], apart, jnp.inf)
        apart = jnp.where(jnp.eye(len(apart), dtype=bool), jnp.inf, apart)
        nearest = jnp.sort(apart, axis=1)
        near = jnp.clip(n - self.faulty - 2, 1, jnp.maximum(n - 1, 1))
        # So far away that its square is infinite or no number, a model scores worst, not best.
        nearest = jnp.where(jnp.isnan(nearest), jnp.inf, nearest)
        score = jnp.sum(jnp.where((jnp.arange(len(apart)) < near) & (n > 1), nearest, 0), axis=1)
        # Those that do not count come last, behind even an infinite score.
        order = jnp.argsort(jnp.lexsort((score, ~counts)))
        chosen = (order < self.keep) & counts
        share = chosen.astype(w_local.dtype) / jnp.sum(chosen)
        return exact_aggregate(kernels.weighted_sum(w_local, share))


def squared_distances(rows: Matrix) -> Array:
    """‖w_i − w_j‖² for all pairs, by one product."""
    gram = jnp.matmul(rows, rows.T, precision=lax.Precision.HIGHEST)
    norms = jnp.diagonal(gram)
    # A norm that overflows makes its row and column infinite, and never NaN.
    norms = jnp.where(jnp.isfinite(norms), norms, jnp.inf)
    apart = norms[:, None] + norms[None, :] - 2 * gram
    return jnp.where(jnp.isinf(norms[:, None] + norms[None, :]), jnp.inf, jnp.maximum(apart, 0))
