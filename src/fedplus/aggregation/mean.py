"""The mean, and how it is kept up to date when few models change."""

from typing import Any, NamedTuple, final

import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, epsilon, settings
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, ChangedRows, exact_aggregate


class Sum(NamedTuple):
    """Σ_k w_k as the sum of two vectors, so that adding to it loses nothing."""

    high: Vector
    low: Vector
    lost: Array
    """A bound on what both together miss of an entry."""


@final
@settings
class Mean(AbstractAggregator):
    """The (weighted) mean of all models: FedAvg, FedProx, FedAvg+.

    One party far away takes the mean with it.

    >>> Mean()([[1.0], [2.0], [6.0]]).w.tolist()
    [3.0]
    """

    propagates_nan = True

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        each = kernels.weights_or_ones(w_local, weights)
        return exact_aggregate(kernels.weighted_sum(w_local, each / each.sum()))

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        if 4 * changed > parties:
            return ()
        unknown = jnp.full((), jnp.inf, w.dtype)
        return Sum(jnp.zeros_like(w), jnp.zeros_like(w), unknown)

    @override
    def solve_incremental(
        self, w_local: Matrix, start: Vector, memory: Any, changed: ChangedRows
    ) -> tuple[Aggregate, Any]:
        n, now = len(w_local), w_local[changed.rows]
        more = now - changed.before
        by = kernels.weighted_sum(more, jnp.ones_like(more[:, 0]))
        # A sum and what its rounding left, whatever their sizes (Knuth).
        high = memory.high + by
        took = high - memory.high
        low = memory.low + ((memory.high - (high - took)) + (by - took))
        size = jnp.max(jnp.sum(jnp.abs(more), axis=0), initial=0)
        lost = memory.lost + epsilon(now) * len(now) * size
        # The new model with the smallest entries sets the scale, so that outliers do not hide an error.
        allowed = 0.25 * epsilon(now) * n * jnp.min(jnp.max(jnp.abs(now), axis=1), initial=1e30)

        def again(known: Sum) -> Sum:
            # The weights depend on the loop, so that XLA does not compute the sum before it.
            each = jnp.where(known.lost <= allowed, 0, jnp.ones(n, now.dtype))
            total = kernels.weighted_sum(w_local, each)
            return Sum(total, jnp.zeros_like(low), jnp.zeros_like(lost))

        # A loop of at most one turn, because a conditional would copy W.
        def is_stale(s: Sum) -> Array:  # False after ``again``, also if W is not finite.
            return (s.lost != 0) & ~(s.lost <= allowed)

        known = lax.while_loop(is_stale, again, Sum(high, low, lost))
        return exact_aggregate((known.high + known.low) / n), known
