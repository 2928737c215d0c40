"""The paper's 𝒜 for any ψ."""

from typing import Any, final

from typing_extensions import override

from fedplus._check import require
from fedplus._types import Host, Matrix, Vector, settings
from fedplus.aggregation import at_hand, native
from fedplus.aggregation.base import AbstractAggregator, Aggregate, Change
from fedplus.aggregation.following import follow, memory_of
from fedplus.aggregation.minimise import minimise
from fedplus.psi import AbstractPsi


@final
@settings
class Moreau(AbstractAggregator):
    r"""The aggregation that ψ defines through its Moreau envelope.

    .. math:: \mathcal A(W) = \operatorname{argmin}_w \tfrac1N \sum_k \hat\psi(w_k - w)

    Zero, Anchor and Quadratic: the mean. L2: the δ-geometric median, by accelerated reweighted means.
    L1: the δ-coordinatewise median, an exact root a coordinate. Blocks: each block by its own ψ. Any
    other ψ: the paper's recursion, accelerated. Where several w minimise, it is the one at which the
    recursion comes to rest. ``residual`` is the length of the recursion's next move in every case.

    Paper: eq. (aggregation_def); Alg. 1, l. 10.

    >>> from fedplus.psi import L1
    >>> Moreau(L1(0.5))([[0.0], [1.0], [50.0]]).w.tolist()
    [1.0]
    """

    psi: AbstractPsi

    def __post_init__(self) -> None:
        require(
            isinstance(self.psi, AbstractPsi), "Moreau.psi", repr(self.psi), "a ψ", "E.g. L2(0.1)."
        )

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        return minimise(self.psi, w_local, weights, start)

    @override
    def at_hand(self, w_local: Host, weights: Host | None, start: Host | None) -> Aggregate | None:
        return at_hand.minimise(self.psi, native.all_of(w_local), weights, start)

    @override
    def memory(self, w: Vector, parties: int) -> Any:
        return memory_of(self.psi, w, parties)

    @override
    def follow(
        self, w_local: Matrix, start: Vector, memory: Any, change: Change
    ) -> tuple[Aggregate, Any]:
        return follow(self.psi, w_local, start, memory, change)

    @override
    def follow_at_hand(
        self, w_local: Host, start: Host, memory: Any, change: Change
    ) -> tuple[Aggregate, Any] | None:
        return at_hand.follow(self.psi, w_local, start, memory, change)
