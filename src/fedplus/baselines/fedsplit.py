"""FedSplit: Peaceman–Rachford splitting, whose fixed points are right."""

from typing import ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings
from fedplus.aggregation import AbstractAggregator, Mean
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require_number
from fedplus.local import Batch, Grad, with_parameter_shapes
from fedplus.uploads import Uploads
from fedplus.work import Each, Work, finite_or, first_model


class FedSplitState(NamedTuple):
    """x and every z_k."""

    w_global: Vector
    z_local: Matrix


@final
@settings
class FedSplit(AbstractBaseline[FedSplitState]):
    r"""A prox step of each party from the far side of the mean, which the mean's fixed points minimise.

    .. math:: u_k \approx \operatorname{prox}_{s f_k}(2x - z_k), \qquad
              z_k \gets z_k + 2\,(u_k - x), \qquad x \gets \overline{z_k}

    The prox is E_k gradient steps from x. Judged: the global model x.

    Args:
        s: Step size of the prox, s > 0.
        eta: Learning rate of the steps that compute it.
        aggregate: What averages the z_k, the inactive parties' as they last were; by default the mean.

    Pathak and Wainwright, FedSplit: An Algorithmic Framework for Fast Federated Optimization, NeurIPS
    2020, Algorithm 1.
    """

    per_party: ClassVar[tuple[str, ...]] = ("z_local",)

    s: float
    eta: float
    aggregate: AbstractAggregator | None = None

    def __post_init__(self) -> None:
        require_number(self.s, "FedSplit.s", above=0)
        require_number(self.eta, "FedSplit.eta", above=0)
        steps.require_aggregator(self.aggregate, "FedSplit")

    @override
    def init(self, w_global: Vector, parties: int) -> FedSplitState:
        w_global = first_model(w_global, parties)
        return FedSplitState(w_global, jnp.tile(w_global, (parties, 1)))

    @override
    def round(
        self, state: FedSplitState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[FedSplitState, Outcome]:
        parties = len(state.z_local)
        work = work.checked(parties)
        x = state.w_global
        _, unravel, _ = with_parameter_shapes(grad)

        def solve(z: Vector, batches: Batch, count: Array | int) -> tuple[Vector, Vector, Array]:
            beyond = unravel(2 * x - z)
            u = steps.descend(
                x, batches, count, grad,
                lambda u, g: steps.add_scaled(
                    u, -self.eta, steps.add_scaled(g, 1 / self.s, steps.subtract(u, beyond))
                ),
            )  # fmt: skip
            u, diverged = finite_or(u, x)
            return u, z + 2 * (u - x), diverged

        before = work.gather(state.z_local)
        solved, moved, diverged = work.map(each, solve, before)
        z_local = work.scatter(state.z_local, moved)
        uploads = Uploads.of_all(work, z_local, x)
        result, _ = uploads.aggregate(self.aggregate or Mean(), x)
        return FedSplitState(result.w, z_local), Outcome(result, solved, diverged, uploads.dropped)

    @override
    def models(self, state: FedSplitState, parties: Array | None = None) -> Matrix:
        return steps.broadcast_model(state.w_global, len(state.z_local), parties)

    @override
    def w_global(self, state: FedSplitState) -> Vector:
        return state.w_global
