"""FedFomo: each party takes from others' models what helps it."""

from typing import ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import Mean
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require, require_integer, require_number
from fedplus.local import Batch, Grad
from fedplus.uploads import Uploads
from fedplus.work import Each, Work, finite_or, first_model


class FedFomoState(NamedTuple):
    """Every θ_k as the server has it, and how much each party thinks of each."""

    theta: Matrix
    affinity: Matrix
    """(N, N): P, the sum of what n's model would have gained k."""


@final
@settings
class FedFomo(AbstractBaseline[FedFomoState]):
    r"""θ_k moves towards the models that have a lower loss on its data, then trains.

    .. math:: w_n = \max\left\{\frac{f_k(\theta_k) - f_k(\theta_n)}{\|\theta_n - \theta_k\|}, 0\right\},
              \qquad \theta_k \gets \theta_k + \sum_n \frac{w_n}{\sum_m w_m}(\theta_n - \theta_k)

    Models are compared on a minibatch of the party's validation samples, so the federation must have
    some (``validation_share``): on what it trains with, a party's own model would always win.

    Judged: the personal model θ_k.

    Args:
        eta: η.
        m: How many models a party is sent, the paper's M: those it has thought most of.
        epsilon: Share of them chosen at random instead.

    Zhang, Sapra, Fidler, Yeung and Alvarez, Personalized Federated Learning with First Order Model
    Optimization, ICLR 2021, section 3: the weights, and the update by them.
    """

    per_party: ClassVar[tuple[str, ...]] = ("theta", "affinity")
    compares: ClassVar[bool] = True

    eta: float
    m: int = static_field(default=5)
    epsilon: float = 0.3

    def __post_init__(self) -> None:
        require_number(self.eta, "FedFomo.eta", above=0)
        require_integer("FedFomo.m", self.m, kinds=int)
        require_number(self.epsilon, "FedFomo.epsilon", least=0, most=1)

    @override
    def init(self, w_global: Vector, parties: int) -> FedFomoState:
        w_global = first_model(w_global, parties)
        theta = jnp.tile(w_global, (parties, 1))
        return FedFomoState(theta, jnp.zeros((parties, parties), w_global.dtype))

    @override
    def round(
        self, state: FedFomoState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[FedFomoState, Outcome]:
        n = len(state.theta)
        work = work.checked(n)
        loss = steps.mean_loss(grad, "FedFomo")
        require(work.held is not None, "work.held", None, "validation samples: FedFomo compares")
        sent = self._chosen(state, work, n)
        everyone = Uploads.of_all(work, state.theta, state.theta[0])
        arrived = jnp.ones(n, bool) if everyone.weights is None else everyone.weights > 0

        def solve(
            own: Vector, others: Array, held: Batch, batches: Batch, count: Array | int
        ) -> tuple[Vector, Vector, Array]:
            models = everyone.models[others]

            gain = loss(own, held) - jax.vmap(lambda w: loss(w, held))(models)
            apart = models - own
            distance = jnp.sqrt(jnp.sum(apart**2, axis=1))
            gain = jnp.where(arrived[others] & (distance > 0), gain, 0)
            weight = jnp.maximum(gain, 0) / jnp.where(distance > 0, distance, 1)
            total = jnp.sum(weight)
            mixed = own + (weight / jnp.where(total > 0, total, 1)) @ apart
            w_k = steps.descend(
                mixed, batches, count, grad, lambda w, g: steps.add_scaled(w, -self.eta, g)
            )
            w_k, diverged = finite_or(w_k, own)
            return w_k, gain, diverged

        before = work.gather(state.theta)
        solved, gain, diverged = work.map(each, solve, before, sent, work.held)
        rows = work.gather(state.affinity)
        rows = jax.vmap(lambda row, others, more: row.at[others].add(more))(rows, sent, gain)
        theta = work.scatter(state.theta, solved)
        after = FedFomoState(theta, work.scatter(state.affinity, rows))
        dropped = jnp.sum(~arrived)
        return after, Outcome(Mean().solve(theta, None, None), solved, diverged, dropped)

    def _chosen(self, state: FedFomoState, work: Work, n: int) -> Array:
        """(K, M): whose models each active party is sent; never its own."""
        m = min(self.m, max(n - 1, 1))
        if n == 1:
            return jnp.zeros((1, 1), jnp.int32)
        require(work.key is not None, "work.key", None, "random numbers: FedFomo explores")
        assert work.key is not None
        for_who, for_noise = jax.random.split(work.key)
        k = len(work.cohort)
        noise = jax.random.uniform(for_noise, (k, n))  # It also decides between equals.
        rank = jnp.argsort(jnp.lexsort((noise, work.gather(state.affinity)), axis=1), axis=1)
        explore = jax.random.bernoulli(for_who, self.epsilon, (k, n))
        score = jnp.where(explore, n * noise, rank)
        score = score.at[jnp.arange(k), work.cohort].set(-1)
        chosen: Array = lax.top_k(score, m)[1]
        return chosen.astype(jnp.int32)

    @override
    def models(self, state: FedFomoState, parties: Array | None = None) -> Matrix:
        return state.theta if parties is None else state.theta[parties]

    @override
    def w_global(self, state: FedFomoState) -> Vector:
        """The mean; no party uses it."""
        return Mean().solve(state.theta, None, None).w
