"""The coordinatewise trimmed mean (Yin et al., 2018)."""

from typing import final

import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Matrix, Vector, settings
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, exact_aggregate
from fedplus.check import require_number

MOST = 0.49
SLIVER = 1e-3
"""Share of a party's weight that is as good as none."""


@final
@settings
class TrimmedMean(AbstractAggregator):
    """In each coordinate the mean of what is left without the share ``trim`` on either side.

    The share is of the weight; where it cuts through a party, the rest of that party's weight counts.

    Args:
        trim: β, from 0 (the mean) to 0.49 (towards the median): the share of faulty parties that
            it withstands.

    Yin, Chen, Kannan and Bartlett, Byzantine-Robust Distributed Learning, ICML 2018.

    >>> TrimmedMean(0.25)([[1.0], [2.0], [4.0], [900.0]]).w.tolist()
    [3.0]
    """

    trim: float = 0.1

    def __post_init__(self) -> None:
        require_number(
            self.trim, "TrimmedMean.trim", least=0, most=MOST, advice="Or take CoordinateMedian()."
        )

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        # Not normalised: whole weights add up without rounding.
        w_local = jnp.asarray(w_local)
        each = jnp.asarray(kernels.weights_or_ones(w_local, weights))
        low = self.trim * jnp.sum(each)
        high = jnp.sum(each) - low
        values, mass = lax.sort(
            (w_local, jnp.broadcast_to(each[:, None], w_local.shape)), dimension=0, num_keys=1
        )
        upper = jnp.cumsum(mass, axis=0)
        kept = jnp.minimum(upper, high) - jnp.maximum(upper - mass, low)
        # A sliver that rounding leaves of a party must not let it in, however far away it is.
        kept = jnp.where(kept > SLIVER * mass, kept, 0)
        w = jnp.sum(jnp.where(kept > 0, kept * values, 0), axis=0) / jnp.sum(kept, axis=0)
        return exact_aggregate(w)
