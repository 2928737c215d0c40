"""APFL: each party learns a mixture of its own model and the global model."""

from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require_bool, require_learning_rate, require_number
from fedplus.local import (
    Batch,
    Grad,
    available_steps,
    batch_at,
    make_optimizer,
    repeat_steps,
    with_parameter_shapes,
)
from fedplus.work import Each, Work, first_model


class APFLState(NamedTuple):
    """The state of APFL."""

    w_global: Vector
    """(d,): w."""
    v_local: Matrix
    """(N, d): v_k."""
    alpha: Vector
    """(N,): α_k."""


@final
@settings
class APFL(AbstractBaseline[APFLState]):
    r"""A mixture v̄_k = α_k v_k + (1 − α_k) w_k, with v_k trained in the mixture and w_k as in FedAvg.

    .. math:: w_k \gets w_k - \eta\nabla f_k(w_k), \quad
              v_k \gets v_k - \eta\,\alpha_k\nabla f_k(\bar v_k), \quad
              \alpha_k \gets \alpha_k - \eta\,\langle v_k - w_k, \nabla f_k(\bar v_k)\rangle

    α_k changes once per round, at the first step, and stays within [0, 1]. The model that is evaluated
    is the mixture α_k v_k + (1 − α_k) w with the global w.

    Args:
        eta: Learning rate η > 0 of w_k, v_k and α_k.
        alpha: The first α_k, in [0, 1]: 0 is FedAvg, 1 is local training.
        adaptive: True to learn α_k, False to keep its first value.
        aggregate: The aggregator of the w_k. By default the mean.
        optimizer: The optimizer of w_k and v_k, as in ``LocalSolve``, with a new state in every round.

    Paper: Deng, Kamani and Mahdavi, Adaptive Personalized Federated Learning, 2020, Algorithm 1, with
    α_k updated by its gradient. The step of v_k has the factor α_k of the chain rule, as in their
    analysis.
    """

    per_party: ClassVar[tuple[str, ...]] = ("v_local", "alpha")

    eta: float
    alpha: float = 0.5
    adaptive: bool = static_field(default=True)
    aggregate: AbstractAggregator | None = None
    optimizer: steps.Optimizer = static_field(default="sgd")

    def __post_init__(self) -> None:
        require_learning_rate(self.eta, "APFL.eta")
        require_number(self.alpha, "APFL.alpha", least=0, most=1, advice="0: FedAvg, 1: local.")
        require_bool("APFL.adaptive", self.adaptive)
        steps.require_aggregator(self.aggregate, "APFL")
        steps.require_optimizer(self.optimizer, "APFL")

    @override
    def init(self, w_global: Vector, parties: int) -> APFLState:
        w_global = first_model(w_global, parties)
        alpha = jnp.full((parties,), self.alpha, w_global.dtype)
        return APFLState(w_global, jnp.tile(w_global, (parties, 1)), alpha)

    @override
    def round(
        self, state: APFLState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[APFLState, Outcome]:
        work = work.checked(len(state.v_local))
        w_global = state.w_global
        gradient, unravel, ravel = with_parameter_shapes(grad)
        optimizer = make_optimizer(self.optimizer)

        def mix(share: Array, v: Vector, w: Vector) -> Vector:
            return share * v + (1 - share) * w

        def solve(
            scale: Any, v: Vector, alpha: Array, batches: Batch, count: Array | int
        ) -> tuple[Vector, Vector, Vector, Array, Array]:
            eta = scale * self.eta

            def step(i: Array, carry: tuple[Any, ...]) -> tuple[Any, ...]:
                w, v, share, moments_w, moments_v = carry
                batch = batch_at(batches, i)
                mixed = steps.add_scaled(w, share, steps.subtract(v, w))
                mixed_gradient = gradient(mixed, batch)
                if self.adaptive:
                    products = jax.tree.map(jnp.vdot, steps.subtract(v, w), mixed_gradient)
                    new_share = share - eta * sum(jax.tree.leaves(products))
                    share = jnp.where(i == 0, jnp.clip(new_share, 0, 1), share)
                g = jax.tree.map(lambda leaf: carry[2] * leaf, mixed_gradient)
                v, moments_v = steps.optimizer_step(optimizer, eta, v, g, moments_v)
                g = gradient(w, batch)
                w, moments_w = steps.optimizer_step(optimizer, eta, w, g, moments_w)
                return w, v, share, moments_w, moments_v

            first = unravel(w_global)
            moments = optimizer.init(first)
            carry = first, unravel(v), alpha, moments, moments
            w, own, share, *_ = repeat_steps(step, count, carry, available_steps(batches))
            w_k, v_k = ravel(w), ravel(own)
            new = (mix(share, v_k, w_k), w_k, v_k, share)
            old = (mix(alpha, v, w_global), w_global, v, alpha)
            (mixed, w_k, v_k, share), diverged = work.accept(new, old, batches, models=2)
            return mixed, w_k, v_k, share, diverged

        v_before, alpha_before = work.gather(state.v_local), work.gather(state.alpha)
        mixed, solved, v_k, share, diverged = work.map(each, solve, v_before, alpha_before)
        result, dropped = steps.aggregate_active(work, solved, w_global, self.aggregate)
        new_state = APFLState(
            result.w,
            work.scatter(state.v_local, v_k),
            work.scatter(state.alpha, share),
        )
        return new_state, Outcome(result, mixed, diverged, dropped)

    @override
    def models(self, state: APFLState, parties: Array | None = None) -> Matrix:
        chosen = slice(None) if parties is None else parties
        share = state.alpha[chosen][:, None]
        return share * state.v_local[chosen] + (1 - share) * state.w_global

    @override
    def w_global(self, state: APFLState) -> Vector:
        return state.w_global
