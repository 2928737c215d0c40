"""MAPPER: each party interpolates between a model of its own and a central one."""

from typing import ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require, require_number
from fedplus.local import Batch, Grad, with_parameter_shapes
from fedplus.work import Each, Work, finite_or, first_model


class MapperState(NamedTuple):
    """w_c, and of every party w_l and λ_k."""

    w_global: Vector
    w_local: Matrix
    lam: Vector


@final
@settings
class Mapper(AbstractBaseline[MapperState]):
    r"""λ_k w_l + (1 − λ_k) w_c: for each λ of a list the party trains w_l, and keeps the best pair.

    .. math:: w_l \gets w_l - \eta\lambda\nabla f_k(\lambda w_l + (1-\lambda) w_c), \qquad
              w_c \gets w_c - \eta_c(1-\lambda_k)\nabla f_k(\lambda_k w_l + (1-\lambda_k) w_c)

    The paper interpolates predictions; here parameters are, which for linear models is the same in the
    logits. Judged: the interpolated model, with the central w_c as the server last sent it.

    Args:
        eta: η, of the own model.
        eta_c: Of the central model: one step a round, on the mean gradient of the party's minibatches.
        lambdas: The list of λ.
        aggregate: What averages the parties' versions of w_c; by default the mean.

    Mansour, Mohri, Ro and Suresh, Three Approaches for Personalization with Applications to Federated
    Learning, 2020, Algorithm Mapper.
    """

    per_party: ClassVar[tuple[str, ...]] = ("w_local", "lam")

    eta: float
    eta_c: float
    lambdas: tuple[float, ...] = static_field(default=(0.1, 0.5, 0.9))
    aggregate: AbstractAggregator | None = None

    def __post_init__(self) -> None:
        require_number(self.eta, "Mapper.eta", above=0)
        require_number(self.eta_c, "Mapper.eta_c", above=0)
        some = isinstance(self.lambdas, tuple) and len(self.lambdas) > 0
        require(some, "Mapper.lambdas", repr(self.lambdas), "a tuple of at least one λ")
        for lam in self.lambdas:
            require_number(lam, "Mapper.lambdas", least=0, most=1)
        steps.require_aggregator(self.aggregate, "Mapper")

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

        def trained(lam: float, w_l: Vector, batches: Batch, count: Array | int) -> Vector:
            """The interpolated model after E_k steps of w_l, from which w_l follows if λ > 0."""
            return steps.descend(
                lam * w_l + (1 - lam) * w_c, batches, count, grad,
                lambda w, g: steps.add_scaled(w, -self.eta * lam**2, g),
            )  # fmt: skip

        def solve(
            w_l: Vector, batches: Batch, count: Array | int
        ) -> tuple[Vector, Vector, Array, Vector, Array]:
            lams = jnp.array(self.lambdas, w_c.dtype)
            mixed = jnp.stack([trained(lam, w_l, batches, count) for lam in self.lambdas])

            def losses(batch: Batch) -> Vector:
                return jnp.stack([loss(w, batch) for w in mixed])

            best = jnp.argmin(steps.mean_over_batches(losses, batches, count))
            lam, w = lams[best], mixed[best]
            own = jnp.where(lam > 0, (w - (1 - lam) * w_c) / jnp.where(lam > 0, lam, 1), w_l)
            at_w = unravel(w)
            mean = ravel(steps.mean_over_batches(lambda b: gradient(at_w, b), batches, count))
            sent = w_c - self.eta_c * (1 - lam) * mean
            found = (sent, own, lam, w)
            (sent, own, lam, w), diverged = finite_or(found, (w_c, w_l, lams[0], w_l))
            return sent, own, lam, w, diverged

        before = work.gather(state.w_local)
        sent, own, lam, solved, diverged = work.map(each, solve, before)
        result, dropped = steps.aggregate_active(work, sent, w_c, self.aggregate)
        after = MapperState(
            result.w, work.scatter(state.w_local, own), work.scatter(state.lam, lam)
        )
        return after, Outcome(result, solved, diverged, dropped)

    @override
    def models(self, state: MapperState, parties: Array | None = None) -> Matrix:
        chosen = slice(None) if parties is None else parties
        lam = state.lam[chosen][:, None]
        return lam * state.w_local[chosen] + (1 - lam) * state.w_global

    @override
    def w_global(self, state: MapperState) -> Vector:
        return state.w_global
