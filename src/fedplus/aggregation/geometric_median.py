"""The geometric median, as robust federated aggregation uses it (RFA, Pillutla et al., 2019)."""

from typing import final

import jax.numpy as jnp
from typing_extensions import override

from fedplus._check import require_number
from fedplus._types import Matrix, Vector, settings
from fedplus.aggregation.base import AbstractAggregator, Aggregate
from fedplus.aggregation.coordinate_median import CoordinateMedian
from fedplus.aggregation.rows import distances
from fedplus.aggregation.weiszfeld import good_start, weiszfeld


@final
@settings
class GeometricMedian(AbstractAggregator):
    r"""The geometric median.

    .. math:: \operatorname{argmin}_w \tfrac1N \sum_k \|w_k - w\|_2

    With fewer than half of the weight arbitrarily far away the result stays bounded. Where all
    parties lie on one line and an interval of it minimises, a point of the interval is taken.

    Args:
        accuracy: Relative to the parties' typical distance from the median. A party nearer than that
            counts as being there, which makes the iteration smooth and, where the median is one of
            the parties, exact to ``accuracy``.

    Paper: Section "Robust Aggregation"; Table 1.
    """

    accuracy: float = 1e-6

    def __post_init__(self) -> None:
        require_number(self.accuracy, "GeometricMedian.accuracy", above=0)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        if w_local.shape[1] == 1:
            return CoordinateMedian().solve(w_local, weights, start)
        each = jnp.ones_like(w_local[:, 0]) if weights is None else weights
        start = good_start(w_local, each) if start is None else start
        r = distances(w_local, start)
        typical = jnp.maximum(jnp.median(r), jnp.finfo(r.dtype).eps * jnp.max(r))
        radius = jnp.maximum(self.accuracy * typical, jnp.finfo(r.dtype).tiny)
        found = weiszfeld(w_local, each, radius, start, self.accuracy)
        return Aggregate(found.w, found.turns, found.left, found.converged)
