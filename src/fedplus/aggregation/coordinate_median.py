"""The coordinatewise median (Yin et al., 2018)."""

from typing import Any, final

import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Host, Matrix, Vector, settings
from fedplus.aggregation import at_hand, native, neighbourhoods
from fedplus.aggregation.base import AbstractAggregator, Aggregate, Change, exact
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
    def memory(self, w: Vector, parties: int) -> Any:
        return neighbourhoods.nothing_known(w, parties)

    @override
    def follow(
        self, w_local: Matrix, start: Vector, memory: Any, change: Change
    ) -> tuple[Aggregate, Any]:
        none = jnp.zeros((), w_local.dtype)
        return neighbourhoods.follow(w_local, none, start, memory, change)

    @override
    def follow_at_hand(
        self, w_local: Host, start: Host, memory: Any, change: Change
    ) -> tuple[Aggregate, Any] | None:
        return at_hand.follow_coordinates(w_local, 0.0, start, memory, change)

    @override
    def at_hand(self, w_local: Host, weights: Host | None, start: Host | None) -> Aggregate | None:
        return at_hand.coordinate_median(native.all_of(w_local), weights, start)
