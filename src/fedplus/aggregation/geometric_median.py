"""The geometric median, as robust federated aggregation uses it (RFA, Pillutla et al., 2019)."""

from math import sqrt
from typing import Any, final

import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Host, Matrix, Vector, settings, tiny
from fedplus.aggregation import at_hand, native, pulled
from fedplus.aggregation.base import AbstractAggregator, Aggregate, Change, certified
from fedplus.aggregation.coordinate_median import CoordinateMedian
from fedplus.aggregation.rows import each_weight
from fedplus.aggregation.start import start_of
from fedplus.aggregation.weiszfeld import weiszfeld


@final
@settings
class GeometricMedian(AbstractAggregator):
    r"""The geometric median.

    .. math:: \operatorname{argmin}_w \tfrac1N \sum_k \|w_k - w\|_2

    With fewer than half of the weight arbitrarily far away the result stays bounded. Where all
    parties lie on one line and an interval of it minimises, a point of the interval is taken.

    Paper: Section "Robust Aggregation"; Table 1.
    """

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        if w_local.shape[1] == 1:
            return CoordinateMedian().solve(w_local, weights, start)
        each = each_weight(w_local, weights)
        least = jnp.full((), _least(w_local), w_local.dtype)
        found = weiszfeld(w_local, each, least, start_of(w_local, each, least, start))
        return Aggregate(found.w, found.turns, found.left, found.converged)

    @override
    def memory(self, w: Vector, parties: int) -> Any:
        return pulled.nothing_known(w, parties)

    @override
    def follow(
        self, w_local: Matrix, start: Vector, memory: Any, change: Change
    ) -> tuple[Aggregate, Any]:
        least = jnp.full((), _least(w_local), w_local.dtype)
        found, memory = pulled.follow(w_local, least, start, memory, change)
        return Aggregate(found.w, found.turns, found.left, found.converged), memory

    @override
    def follow_at_hand(
        self, w_local: Host, start: Host, memory: Any, change: Change
    ) -> tuple[Aggregate, Any] | None:
        found = at_hand.follow_geometric(w_local, _least(w_local), start, memory, change)
        if found is None:
            return None
        return certified(found.w, found.passes, found.left, True), memory

    @override
    def at_hand(self, w_local: Host, weights: Host | None, start: Host | None) -> Aggregate | None:
        return at_hand.geometric_median(native.all_of(w_local), weights, _least(w_local), start)


def _least(w_local: Any) -> float:
    """No distance but 0 is less."""
    return sqrt(tiny(w_local))
