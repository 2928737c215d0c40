"""The mean: one product."""

from typing import Any, final

from typing_extensions import override

from fedplus._types import Host, Matrix, Vector, settings
from fedplus.aggregation import at_hand, native, sums
from fedplus.aggregation.base import AbstractAggregator, Aggregate, Change, exact
from fedplus.aggregation.rows import each_weight, shared_mean


@final
@settings
class Mean(AbstractAggregator):
    """The (weighted) mean of all models: FedAvg, FedProx, FedAvg+.

    One party far away takes the mean with it.

    >>> Mean()([[1.0], [2.0], [6.0]]).w.tolist()
    [3.0]
    """

    shows_all = True

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        return mean(w_local, weights)

    @override
    def memory(self, w: Vector, parties: int) -> Any:
        return sums.nothing_known(w, parties)

    @override
    def follow(
        self, w_local: Matrix, start: Vector, memory: Any, change: Change
    ) -> tuple[Aggregate, Any]:
        return sums.follow(w_local, memory, change)

    @override
    def follow_at_hand(
        self, w_local: Host, start: Host, memory: Any, change: Change
    ) -> tuple[Aggregate, Any] | None:
        return at_hand.follow_mean(w_local, memory, change)

    @override
    def at_hand(self, w_local: Host, weights: Host | None, start: Host | None) -> Aggregate | None:
        return at_hand.mean(native.all_of(w_local), weights)


def mean(w_local: Matrix, weights: Vector | None) -> Aggregate:
    """The mean as an ``Aggregate``: exact, in one turn."""
    each = each_weight(w_local, weights)
    return exact(shared_mean(w_local, each))
