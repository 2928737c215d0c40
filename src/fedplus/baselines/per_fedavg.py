"""Per-FedAvg: a global model that each party adapts by one gradient step (MAML)."""

from typing import Any, ClassVar, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator
from fedplus.algorithm import AbstractLocalAdaptation, Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require, require_learning_rate, require_number
from fedplus.local import (
    Batch,
    Grad,
    Params,
    available_steps,
    batch_at,
    make_optimizer,
    repeat_steps,
    with_parameter_shapes,
)
from fedplus.work import Each, Work, first_model


class PerFedAvgState(NamedTuple):
    """The state of Per-FedAvg; parties have no model of their own."""

    w_global: Vector
    """(d,): w."""
    rounds: Array
    """(N,): the number of rounds in which each party took part."""


@final
@settings
class PerFedAvg(AbstractBaseline[PerFedAvgState], AbstractLocalAdaptation):
    r"""FedAvg on F_k(w) = f_k(w − α∇f_k(w)), the loss after one step of adaptation.

    .. math:: \tilde w = w - \alpha\nabla f_k(w; D), \qquad
              w \gets w - \beta\,(I - \alpha\nabla^2 f_k(w; D''))\,\nabla f_k(\tilde w; D')

    The first-order variant omits the Hessian. The Hessian-free variant computes its product with the
    gradient from two more gradients, at w ± δ∇f_k(w̃). D, D', D'' are different minibatches. The model
    that is evaluated is w − α∇f_k(w), for the global w and a minibatch of the party's own samples.

    Args:
        alpha: Step size α ≥ 0 of the adaptation; 0 is FedAvg.
        beta: Learning rate β > 0 of w.
        variant: "fo" (first-order) or "hf" (Hessian-free).
        delta: Step δ > 0 of the differences in the Hessian-free variant.
        aggregate: The aggregator of the parties' models. By default the mean.
        optimizer: The optimizer of w, as in ``LocalSolve``, with a new state in every round.

    Paper: Fallah, Mokhtari and Ozdaglar, Personalized Federated Learning with Theoretical Guarantees: A
    Model-Agnostic Meta-Learning Approach, NeurIPS 2020, Algorithm 1 and section 5.
    """

    per_party: ClassVar[tuple[str, ...]] = ("rounds",)
    learning_rates: ClassVar[tuple[str, ...]] = ("beta",)
    batches_per_step: ClassVar[int] = 3

    alpha: float
    beta: float
    variant: Literal["fo", "hf"] = static_field(default="hf")
    delta: float = 1e-3
    aggregate: AbstractAggregator | None = None
    optimizer: steps.Optimizer = static_field(default="sgd")

    def __post_init__(self) -> None:
        require_number(self.alpha, "PerFedAvg.alpha", least=0, advice="0 is FedAvg.")
        require_learning_rate(self.beta, "PerFedAvg.beta")
        require_number(self.delta, "PerFedAvg.delta", above=0)
        ok = self.variant in ("fo", "hf")
        require(ok, "PerFedAvg.variant", repr(self.variant), '"fo" or "hf"')
        steps.require_aggregator(self.aggregate, "PerFedAvg")
        steps.require_optimizer(self.optimizer, "PerFedAvg")

    @override
    def init(self, w_global: Vector, parties: int) -> PerFedAvgState:
        return PerFedAvgState(first_model(w_global, parties), jnp.zeros(parties, jnp.int32))

    @override
    def round(
        self, state: PerFedAvgState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[PerFedAvgState, Outcome]:
        work = work.checked(len(state.rounds))
        w_global = state.w_global
        gradient, unravel, ravel = with_parameter_shapes(grad)
        optimizer = make_optimizer(self.optimizer)

        def solve(scale: Any, batches: Batch, count: Array | int) -> tuple[Vector, Array]:
            available = available_steps(batches)

            def batch(i: Array, j: int) -> Batch:
                """Return the j-th minibatch of step i; if there are too few, they are used again."""
                index = 3 * i + j
                return batch_at(batches, index if available is None else index % available)

            def step(i: Array, carry: tuple[Params, Any]) -> tuple[Params, Any]:
                w, moments = carry
                tilde = steps.add_scaled(w, -self.alpha, gradient(w, batch(i, 0)))
                outer = gradient(tilde, batch(i, 1))
                if self.variant == "hf":
                    up, down = (
                        gradient(steps.add_scaled(w, sign * self.delta, outer), batch(i, 2))
                        for sign in (1.0, -1.0)
                    )
                    difference = steps.subtract(up, down)  # 2δ ∇²f_k(w) outer
                    outer = steps.add_scaled(outer, -self.alpha / (2 * self.delta), difference)
                return steps.optimizer_step(optimizer, scale * self.beta, w, outer, moments)

            first = unravel(w_global)
            solved = ravel(repeat_steps(step, count, (first, optimizer.init(first)), None)[0])
            return work.accept(solved, w_global, batches)

        solved, diverged = work.map(each, solve)
        result, dropped = steps.aggregate_active(work, solved, w_global, self.aggregate)
        rounds = work.scatter(state.rounds, work.gather(state.rounds) + 1)
        return PerFedAvgState(result.w, rounds), Outcome(result, solved, diverged, dropped)

    @override
    def models(self, state: PerFedAvgState, parties: Array | None = None) -> Matrix:
        """Return the global model for each party; ``adapt`` personalises it."""
        return steps.broadcast_model(state.w_global, len(state.rounds), parties)

    @property
    @override
    def adaptation_steps(self) -> int:
        return 1

    @override
    def adapt(
        self, models: Matrix, batches: Batch, grad: Grad, each: Each = jax.vmap, scale: Any = 1.0
    ) -> Matrix:
        gradient, unravel, ravel = with_parameter_shapes(grad)

        def adapt_one(w: Vector, batches: Batch) -> Vector:
            g = ravel(gradient(unravel(w), batch_at(batches, jnp.int32(0))))
            moved: Vector = w - scale * self.alpha * g
            return moved

        adapted: Matrix = each(adapt_one)(models, batches)
        return adapted

    @override
    def w_global(self, state: PerFedAvgState) -> Vector:
        return state.w_global
