"""Mapper: each party interpolates between its own model and a central model."""

from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require, require_learning_rate, require_number
from fedplus.local import Batch, Grad, with_parameter_shapes
from fedplus.work import Each, Work, first_model


class MapperState(NamedTuple):
    """The state of Mapper."""

    w_global: Vector
    """(d,): w_c, the central model."""
    w_local: Matrix
    """(N, d): w_l of each party."""
    lam: Vector
    """(N,): λ_k."""


@final
@settings
class Mapper(AbstractBaseline[MapperState]):
    r"""An interpolation λ_k w_l + (1 − λ_k) w_c, with the best λ_k of a list.

    .. math:: w_l \gets w_l - \eta\lambda\nabla f_k(\lambda w_l + (1-\lambda) w_c), \qquad
              w_c \gets w_c - \eta_c(1-\lambda_k)\nabla f_k(\lambda_k w_l + (1-\lambda_k) w_c)

    In a round, a party trains w_l for each λ of the list and keeps the pair with the lowest loss. The
    paper interpolates predictions; this class interpolates parameters, which is the same for the logits
    of linear models. The model that is evaluated is the interpolation with the global w_c.

    Args:
        eta: Learning rate η > 0 of the party's own model w_l.
        eta_c: Learning rate η_c > 0 of w_c, for one step per round with the mean gradient.
        lambdas: The values of λ in [0, 1] that a party tries.
        aggregate: The aggregator of the parties' versions of w_c. By default the mean.
        optimizer: The optimizer of w_l, as in ``LocalSolve``, with a new state in every round.

    Paper: Mansour, Mohri, Ro and Suresh, Three Approaches for Personalization with Applications to
    Federated Learning, 2020, Algorithm Mapper.
    """

    per_party: ClassVar[tuple[str, ...]] = ("w_local", "lam")
    learning_rates: ClassVar[tuple[str, ...]] = ("eta", "eta_c")

    eta: float
    eta_c: float
    lambdas: tuple[float, ...] = static_field(default=(0.1, 0.5, 0.9))
    aggregate: AbstractAggregator | None = None
    optimizer: steps.Optimizer = static_field(default="sgd")

    def __post_init__(self) -> None:
        require_learning_rate(self.eta, "Mapper.eta")
        require_learning_rate(self.eta_c, "Mapper.eta_c")
        is_valid = isinstance(self.lambdas, tuple) and len(self.lambdas) > 0
        require(is_valid, "Mapper.lambdas", repr(self.lambdas), "a tuple of at least one λ")
        for lam in self.lambdas:
            require_number(lam, "Mapper.lambdas", least=0, most=1)
        steps.require_aggregator(self.aggregate, "Mapper")
        steps.require_optimizer(self.optimizer, "Mapper")

    @override
    def init(self, w_global: Vector, parties: int) -> MapperState:
        w_global = first_model(w_global, parties)
        lam = jnp.full((parties,), self.lambdas[0], w_global.dtype)
        return MapperState(w_global, jnp.tile(w_global, (parties, 1)), lam)

    @override
    def round(
        self, state: MapperState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[MapperState, Outcome]:
        work = work.checked(len(state.w_local))
        loss = steps.mean_loss(grad, "Mapper")
        w_c = state.w_global
        gradient, unravel, ravel = with_parameter_shapes(grad)

        def train(
            scale: Any, lam: float, w_l: Vector, batches: Batch, count: Array | int
        ) -> Vector:
            """Return the interpolated model after E_k steps of w_l, which determines w_l if λ > 0."""
            first = lam * w_l + (1 - lam) * w_c
            return steps.descend(
                first, batches, count, grad, scale * self.eta * lam, self.optimizer,
                lambda w, g: jax.tree.map(lambda leaf: lam * leaf, g),
            )  # fmt: skip

        def solve(
            scale: Any, w_l: Vector, old_lam: Array, batches: Batch, count: Array | int
        ) -> tuple[Vector, Vector, Array, Vector, Array]:
            lams = jnp.array(self.lambdas, w_c.dtype)
            mixed = jnp.stack([train(scale, lam, w_l, batches, count) for lam in self.lambdas])

            def losses(batch: Batch) -> Vector:
                return jnp.stack([loss(w, batch) for w in mixed])

            best = jnp.argmin(steps.mean_over_batches(losses, batches, count))
            lam, w = lams[best], mixed[best]
            own = jnp.where(lam > 0, (w - (1 - lam) * w_c) / jnp.where(lam > 0, lam, 1), w_l)
            params = unravel(w)
            mean = ravel(steps.mean_over_batches(lambda b: gradient(params, b), batches, count))
            central = w_c - scale * self.eta_c * (1 - lam) * mean
            old_mixed = old_lam * w_l + (1 - old_lam) * w_c
            new, old = (central, w, own, lam), (w_c, old_mixed, w_l, old_lam)
            (central, w, own, lam), diverged = work.accept(new, old, batches, models=2)
            return central, own, lam, w, diverged

        w_l = work.gather(state.w_local)
        central, own, lam, solved, diverged = work.map(each, solve, w_l, work.gather(state.lam))
        result, dropped = steps.aggregate_active(work, central, w_c, self.aggregate)
        w_local, lams = work.scatter(state.w_local, own), work.scatter(state.lam, lam)
        new_state = MapperState(result.w, w_local, lams)
        return new_state, Outcome(result, solved, diverged, dropped)

    @override
    def models(self, state: MapperState, parties: Array | None = None) -> Matrix:
        chosen = slice(None) if parties is None else parties
        lam = state.lam[chosen][:, None]
        return lam * state.w_local[chosen] + (1 - lam) * state.w_global

    @override
    def w_global(self, state: MapperState) -> Vector:
        return state.w_global
