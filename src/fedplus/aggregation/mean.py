"""The mean, computed from all models or updated when few models change."""

from typing import Any, NamedTuple, final

import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, epsilon, settings
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, ChangedRows, direct_aggregate


class Sum(NamedTuple):
    """Σ_k w_k as the unevaluated sum ``high + low`` of two vectors (compensated summation)."""

    high: Vector
    low: Vector
    lost: Array
    """A bound on the error of each entry; infinite if the sum is unknown."""


@final
@settings
class Mean(AbstractAggregator):
    """The (weighted) mean of all models: FedAvg, FedProx, FedAvg+.

    It is not robust: one model far away moves the mean arbitrarily far.

    >>> Mean()([[1.0], [2.0], [6.0]]).w.tolist()
    [3.0]
    """

    propagates_nan = True

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        a = kernels.weights_or_ones(w_local, weights)
        return direct_aggregate(kernels.weighted_sum(w_local, a / a.sum()))

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        if 4 * changed > parties:
            return ()
        unknown = jnp.full((), jnp.inf, w.dtype)
        return Sum(jnp.zeros_like(w), jnp.zeros_like(w), unknown)

    @override
    def solve_incremental(
        self,
        w_local: Matrix,
        counted: Array | None,
        start: Vector,
        memory: Any,
        changed: ChangedRows,
    ) -> tuple[Aggregate, Any]:
        after: Any = w_local[changed.rows]
        before = changed.before
        ones = jnp.ones_like(w_local[:, 0])
        n: Any = len(w_local)
        if counted is not None:
            ones = counted.astype(after.dtype)
            n = jnp.maximum(ones.sum(), 1)
            after = jnp.where(counted[changed.rows][:, None], after, 0)
            before = jnp.where(changed.counted[:, None], before, 0)
        changes = after - before
        total_change = kernels.weighted_sum(changes, jnp.ones_like(changes[:, 0]))
        # Knuth's two-sum: ``high`` and the rounding error of this addition.
        high = memory.high + total_change
        added = high - memory.high
        low = memory.low + ((memory.high - (high - added)) + (total_change - added))
        size = jnp.max(jnp.sum(jnp.abs(changes), axis=0), initial=0)
        lost = memory.lost + epsilon(after) * len(after) * size
        # The new model with the smallest entries sets the scale, so that outliers do not hide an error.
        allowed = 0.25 * epsilon(after) * n * jnp.min(jnp.max(jnp.abs(after), axis=1), initial=1e30)

        def sum_all(total: Sum) -> Sum:
            # The weights depend on the loop, so that XLA does not hoist the sum out of it.
            a = jnp.where(total.lost <= allowed, 0, ones)
            high = kernels.weighted_sum(w_local, a)
            return Sum(high, jnp.zeros_like(low), jnp.zeros_like(lost))

        def is_inaccurate(total: Sum) -> Any:  # False after ``sum_all``, also if W is not finite.
            return (total.lost != 0) & ~(total.lost <= allowed)

        # A loop with at most one iteration instead of a conditional, which would copy W.
        total = lax.while_loop(is_inaccurate, sum_all, Sum(high, low, lost))
        mean: Vector = (total.high + total.low) / n
        return direct_aggregate(mean), total
