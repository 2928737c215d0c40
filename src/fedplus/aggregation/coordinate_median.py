"""The coordinatewise median (Yin et al., 2018)."""

from typing import final

import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Host, Matrix, Vector, settings
from fedplus.aggregation import at_hand, native
from fedplus.aggregation.base import AbstractAggregator, Aggregate, exact
from fedplus.aggregation.median import NETWORK_UP_TO, median_by_counting, median_by_network
from fedplus.aggregation.rows import each_weight


@final
@settings
class CoordinateMedian(AbstractAggregator):
    r"""The exact coordinatewise median.

    .. math:: \operatorname{argmin}_w \tfrac1N \sum_k \|w_k - w\|_1

    Where an interval minimises (an even number of parties, or weights that split in halves), its
    midpoint is taken, as NumPy does. With fewer than half of the weight arbitrarily far away the
    result stays within the range of the rest.

    Paper: eq. (CoMed); Table 1.
    """

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        if weights is None and start is None and w_local.shape[0] <= NETWORK_UP_TO:
            return exact(median_by_network(w_local))
        each = each_weight(w_local, weights)
        w, passes, closed = median_by_counting(w_local, each, start)
        return Aggregate(w, passes, jnp.where(closed, jnp.zeros((), w.dtype), jnp.inf), closed)

    @override
    def at_hand(self, w_local: Host, weights: Host | None, start: Host | None) -> Aggregate | None:
        return at_hand.coordinate_median(native.all_of(w_local), weights, start)
