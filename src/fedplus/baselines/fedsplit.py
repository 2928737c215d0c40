"""FedSplit: Peaceman–Rachford splitting, whose fixed points minimise the mean loss."""

from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator, Mean
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require_learning_rate, require_number
from fedplus.local import Batch, Grad, Params, with_parameter_shapes
from fedplus.uploads import Uploads
from fedplus.work import Each, Work, first_model


class FedSplitState(NamedTuple):
    """The state of FedSplit."""

    w_global: Vector
    """(d,): x."""
    z_local: Matrix
    """(N, d): z_k."""


@final
@settings
class FedSplit(AbstractBaseline[FedSplitState]):
    r"""Operator splitting: each party takes a proximal step at the reflection of z_k in the mean x.

    .. math:: u_k \approx \operatorname{prox}_{s f_k}(2x - z_k), \qquad
              z_k \gets z_k + 2\,(u_k - x), \qquad x \gets \overline{z_k}

    The proximal step is approximated by E_k gradient steps from x. The model that is evaluated is the
    global model x.

    Args:
        s: Step size s > 0 of the proximal step.
        eta: Learning rate η > 0 of the gradient steps that approximate it.
        aggregate: The aggregator of all z_k, with the last one of each inactive party. By default
            the mean.
        optimizer: The optimizer of these steps, as in ``LocalSolve``, with a new state in every round.

    Paper: Pathak and Wainwright, FedSplit: An Algorithmic Framework for Fast Federated Optimization,
    NeurIPS 2020, Algorithm 1.
    """

    per_party: ClassVar[tuple[str, ...]] = ("z_local",)

    s: float
    eta: float
    aggregate: AbstractAggregator | None = None
    optimizer: steps.Optimizer = static_field(default="sgd")

    def __post_init__(self) -> None:
        require_number(self.s, "FedSplit.s", above=0)
        require_learning_rate(self.eta, "FedSplit.eta")
        steps.require_aggregator(self.aggregate, "FedSplit")
        steps.require_optimizer(self.optimizer, "FedSplit")

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

        def solve(
            scale: Any, z: Vector, batches: Batch, count: Array | int
        ) -> tuple[Vector, Vector, Array]:
            reflection = unravel(2 * x - z)

            def regularised(u: Params, g: Params) -> Params:
                return steps.add_scaled(g, 1 / self.s, steps.subtract(u, reflection))

            u = steps.descend(
                x, batches, count, grad, scale * self.eta, self.optimizer, regularised
            )
            u, diverged = work.accept(u, x, batches)
            return u, z + 2 * (u - x), diverged

        solved, z, diverged = work.map(each, solve, work.gather(state.z_local))
        z_local = work.scatter(state.z_local, z)
        uploads = Uploads.of_all(work, z_local, x)
        result, _ = uploads.aggregate(self.aggregate or Mean(), x)
        return FedSplitState(result.w, z_local), Outcome(result, solved, diverged, uploads.dropped)

    @override
    def models(self, state: FedSplitState, parties: Array | None = None) -> Matrix:
        return steps.broadcast_model(state.w_global, len(state.z_local), parties)

    @override
    def w_global(self, state: FedSplitState) -> Vector:
        return state.w_global
