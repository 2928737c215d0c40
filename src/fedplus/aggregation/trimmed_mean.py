"""The coordinatewise trimmed mean (Yin et al., 2018)."""

from typing import final

import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Matrix, Vector, settings
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, direct_aggregate
from fedplus.check import require_number

MAX_TRIM = 0.49
MIN_SHARE = 1e-3
"""If no more than this share of a party's weight remains after trimming, the party is left out."""


@final
@settings
class TrimmedMean(AbstractAggregator):
    """The mean of each coordinate without the share ``trim`` of smallest and of largest entries.

    The share is one of the weight: a party at the boundary counts with the rest of its weight.

    Args:
        trim: β, the largest share of faulty parties, from 0 (the mean) to 0.49 (almost the median).

    Yin, Chen, Kannan and Bartlett, Byzantine-Robust Distributed Learning, ICML 2018.

    >>> TrimmedMean(0.25)([[1.0], [2.0], [4.0], [900.0]]).w.tolist()
    [3.0]
    """

    trim: float = 0.1

    def __post_init__(self) -> None:
        require_number(
            self.trim,
            "TrimmedMean.trim",
            least=0,
            most=MAX_TRIM,
            advice="Or use CoordinateMedian().",
        )

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        # Weights are not normalised, because sums of integers are exact.
        w_local = jnp.asarray(w_local)
        a = jnp.asarray(kernels.weights_or_ones(w_local, weights))
        low = self.trim * jnp.sum(a)
        high = jnp.sum(a) - low
        masses = jnp.broadcast_to(a[:, None], w_local.shape)
        values, mass = lax.sort((w_local, masses), dimension=0, num_keys=1)
        upper = jnp.cumsum(mass, axis=0)
        remaining = jnp.minimum(upper, high) - jnp.maximum(upper - mass, low)
        # A trimmed party may be far away, so a remainder that is only rounding must not count.
        remaining = jnp.where(remaining > MIN_SHARE * mass, remaining, 0)
        terms = jnp.where(remaining > 0, remaining * values, 0)
        return direct_aggregate(jnp.sum(terms, axis=0) / jnp.sum(remaining, axis=0))
