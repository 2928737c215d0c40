"""pFedMe: personal models from the Moreau envelopes of the losses."""

from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require_integer, require_learning_rate, require_number
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


class PFedMeState(NamedTuple):
    """The state of pFedMe."""

    w_global: Vector
    """(d,): w."""
    theta: Matrix
    """(N, d): θ_k."""


@final
@settings
class PFedMe(AbstractBaseline[PFedMeState]):
    r"""Moreau envelopes: personal models θ_k near w_k, and w_k that move towards the θ_k.

    .. math:: \theta_k \approx \arg\min_\theta f_k(\theta) + \tfrac{\lambda}{2}\|\theta - w_k\|^2,
              \qquad w_k \gets w_k - \eta\lambda\,(w_k - \theta_k)

    In each of the E_k steps of a round (R in the paper), θ_k takes ``inner`` steps on one minibatch.
    The model that is evaluated is the personal model θ_k.

    Args:
        eta: Learning rate η > 0 of w_k.
        lam: Regularisation λ > 0; the larger, the nearer θ_k stays to w_k.
        eta_inner: Learning rate > 0 of θ_k.
        inner: The number of steps of θ_k on each minibatch, K in the paper.
        beta: Step size β > 0 of the server towards the aggregate of the w_k; 1 takes the aggregate.
        aggregate: The aggregator of the w_k. By default the mean.
        optimizer: The optimizer of θ_k, as in ``LocalSolve``, with a new state in every round.

    Paper: Dinh, Tran and Nguyen, Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020,
    Algorithm 1.
    """

    per_party: ClassVar[tuple[str, ...]] = ("theta",)
    learning_rates: ClassVar[tuple[str, ...]] = ("eta", "eta_inner")

    eta: float
    lam: float
    eta_inner: float
    inner: int = static_field(default=5)
    beta: float = 1.0
    aggregate: AbstractAggregator | None = None
    optimizer: steps.Optimizer = static_field(default="sgd")

    def __post_init__(self) -> None:
        require_learning_rate(self.eta, "PFedMe.eta")
        require_number(self.lam, "PFedMe.lam", above=0, advice="λ keeps θ_k near w.")
        require_learning_rate(self.eta_inner, "PFedMe.eta_inner")
        require_integer("PFedMe.inner", self.inner, kinds=int)
        require_number(self.beta, "PFedMe.beta", above=0)
        steps.require_aggregator(self.aggregate, "PFedMe")
        steps.require_optimizer(self.optimizer, "PFedMe")

    @override
    def init(self, w_global: Vector, parties: int) -> PFedMeState:
        w_global = first_model(w_global, parties)
        return PFedMeState(w_global, jnp.tile(w_global, (parties, 1)))

    @override
    def round(
        self, state: PFedMeState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[PFedMeState, Outcome]:
        work = work.checked(len(state.theta))
        w_global = state.w_global
        gradient, unravel, ravel = with_parameter_shapes(grad)
        optimizer = make_optimizer(self.optimizer)

        def solve(
            scale: Any, before: Vector, batches: Batch, count: Array | int
        ) -> tuple[Vector, Vector, Array]:
            def step(i: Array, carry: tuple[Params, Params, Any]) -> tuple[Params, Params, Any]:
                w, theta, moments = carry
                batch = batch_at(batches, i)
                for _ in range(self.inner):  # l. 7
                    distance = steps.subtract(theta, w)
                    regularised = steps.add_scaled(gradient(theta, batch), self.lam, distance)
                    theta, moments = steps.optimizer_step(
                        optimizer, scale * self.eta_inner, theta, regularised, moments
                    )
                rate = scale * self.eta * self.lam
                new_w = steps.add_scaled(w, -rate, steps.subtract(w, theta))  # l. 8
                return new_w, theta, moments

            first = unravel(w_global)
            carry = first, first, optimizer.init(first)
            w, theta, _ = repeat_steps(step, count, carry, available_steps(batches))
            new, old = (ravel(w), ravel(theta)), (w_global, before)
            (w_k, theta_k), diverged = work.accept(new, old, batches, models=2)
            has_steps = jnp.asarray(count) > 0
            return w_k, jnp.where(has_steps, theta_k, before), diverged

        solved, theta, diverged = work.map(each, solve, work.gather(state.theta))
        result, dropped = steps.aggregate_active(work, solved, w_global, self.aggregate)
        new_w_global = (1 - self.beta) * w_global + self.beta * result.w  # l. 11
        new_state = PFedMeState(new_w_global, work.scatter(state.theta, theta))
        return new_state, Outcome(result, theta, diverged, dropped)

    @override
    def models(self, state: PFedMeState, parties: Array | None = None) -> Matrix:
        return state.theta if parties is None else state.theta[parties]

    @override
    def w_global(self, state: PFedMeState) -> Vector:
        return state.w_global
