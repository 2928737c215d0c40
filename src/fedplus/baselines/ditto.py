"""Ditto: a personal model for each party, regularised towards the global model of FedAvg."""

from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require_learning_rate, require_number
from fedplus.local import Batch, Grad, Params, with_parameter_shapes
from fedplus.work import Each, Work, first_model


class DittoState(NamedTuple):
    """The state of Ditto."""

    w_global: Vector
    """(d,): w."""
    v_local: Matrix
    """(N, d): v_k."""


@final
@settings
class Ditto(AbstractBaseline[DittoState]):
    r"""FedAvg for the global model w, and a personal model v_k regularised towards w.

    .. math:: v_k \gets v_k - \eta\,(\nabla f_k(v_k) + \lambda\,(v_k - w))

    The model that is evaluated is the personal model v_k.

    Args:
        eta: Learning rate η > 0 of both models.
        lam: Regularisation λ ≥ 0: 0 is local training, a large λ is nearly FedAvg.
        aggregate: The aggregator of the parties' versions of w. By default the mean.
        optimizer: The optimizer of both models, as in ``LocalSolve``, with a new state in every round.

    Paper: Li, Hu, Beirami and Smith, Ditto: Fair and Robust Federated Learning Through Personalization,
    ICML 2021, Algorithm 1.
    """

    per_party: ClassVar[tuple[str, ...]] = ("v_local",)

    eta: float
    lam: float
    aggregate: AbstractAggregator | None = None
    optimizer: steps.Optimizer = static_field(default="sgd")

    def __post_init__(self) -> None:
        require_learning_rate(self.eta, "Ditto.eta")
        require_number(self.lam, "Ditto.lam", least=0, advice="0 is local training.")
        steps.require_aggregator(self.aggregate, "Ditto")
        steps.require_optimizer(self.optimizer, "Ditto")

    @override
    def init(self, w_global: Vector, parties: int) -> DittoState:
        w_global = first_model(w_global, parties)
        return DittoState(w_global, jnp.tile(w_global, (parties, 1)))

    @override
    def round(
        self, state: DittoState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[DittoState, Outcome]:
        work = work.checked(len(state.v_local))
        w_global = state.w_global
        _, unravel, _ = with_parameter_shapes(grad)

        def solve(
            scale: Any, v: Vector, batches: Batch, count: Array | int
        ) -> tuple[Vector, Vector, Array]:
            anchor = unravel(w_global)

            def regularised(v: Params, g: Params) -> Params:
                return steps.add_scaled(g, self.lam, steps.subtract(v, anchor))

            rule = batches, count, grad, scale * self.eta, self.optimizer
            w_k = steps.descend(w_global, *rule)
            v_k = steps.descend(v, *rule, regularised)
            new, old = (w_k, v_k), (w_global, v)
            (w_k, v_k), diverged = work.accept(new, old, batches, models=2)
            return w_k, v_k, diverged

        solved, v_k, diverged = work.map(each, solve, work.gather(state.v_local))
        result, dropped = steps.aggregate_active(work, solved, w_global, self.aggregate)
        new_state = DittoState(result.w, work.scatter(state.v_local, v_k))
        return new_state, Outcome(result, v_k, diverged, dropped)

    @override
    def models(self, state: DittoState, parties: Array | None = None) -> Matrix:
        return state.v_local if parties is None else state.v_local[parties]

    @override
    def w_global(self, state: DittoState) -> Vector:
        return state.w_global
