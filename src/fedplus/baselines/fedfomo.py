"""FedFomo: each party mixes in the models of others that have a lower loss on its samples."""

from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import Mean
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require, require_integer, require_learning_rate, require_number
from fedplus.local import Batch, Grad
from fedplus.uploads import Uploads
from fedplus.work import Each, Work, first_model


class FedFomoState(NamedTuple):
    """The state of FedFomo."""

    theta: Matrix
    """(N, d): θ_k, as the server has it."""
    affinity: Matrix
    """(N, N): P, in row k and column n the total decrease of k's loss by n's models."""


@final
@settings
class FedFomo(AbstractBaseline[FedFomoState]):
    r"""Personal models θ_k that move towards models with a lower loss on k's samples, then train.

    .. math:: w_n = \max\left\{\frac{f_k(\theta_k) - f_k(\theta_n)}{\|\theta_n - \theta_k\|}, 0\right\},
              \qquad \theta_k \gets \theta_k + \sum_n \frac{w_n}{\sum_m w_m}(\theta_n - \theta_k)

    Models are compared on a minibatch of the party's validation samples, so the federation must have
    some (``validation_share``): on training samples, a party's own model would always win. The model
    that is evaluated is the personal model θ_k.

    Args:
        eta: Learning rate η > 0.
        m: Number of models that a party receives, M in the paper: those with the largest affinity.
        epsilon: The share of these models that is chosen at random instead, in [0, 1].
        optimizer: The optimizer of local steps, as in ``LocalSolve``, with a new state in every round.

    Paper: Zhang, Sapra, Fidler, Yeung and Alvarez, Personalized Federated Learning with First Order
    Model Optimization, ICLR 2021, section 3.
    """

    per_party: ClassVar[tuple[str, ...]] = ("theta", "affinity")
    needs_validation: ClassVar[bool] = True
    can_join: ClassVar[bool] = False

    eta: float
    m: int = static_field(default=5)
    epsilon: float = 0.3
    optimizer: steps.Optimizer = static_field(default="sgd")

    def __post_init__(self) -> None:
        require_learning_rate(self.eta, "FedFomo.eta")
        require_integer("FedFomo.m", self.m, kinds=int)
        require_number(self.epsilon, "FedFomo.epsilon", least=0, most=1)
        steps.require_optimizer(self.optimizer, "FedFomo")

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
        advice = "FedFomo compares models on them."
        require(work.validation is not None, "work.validation", None, "validation samples", advice)
        sent = self._choose(state, work, n)
        everyone = Uploads.of_all(work, state.theta, state.theta[0])
        arrived = jnp.ones(n, bool) if everyone.weights is None else everyone.weights > 0

        def solve(
            scale: Any, own: Vector, others: Array, held: Batch, batches: Batch, count: Array | int
        ) -> tuple[Vector, Vector, Array]:
            models = everyone.models[others]
            gain = loss(own, held) - jax.vmap(lambda w: loss(w, held))(models)
            difference = models - own
            distance = jnp.sqrt(jnp.sum(difference**2, axis=1))
            gain = jnp.where(arrived[others] & (distance > 0), gain, 0)
            weight = jnp.maximum(gain, 0) / jnp.where(distance > 0, distance, 1)
            total = jnp.sum(weight)
            mixed = own + (weight / jnp.where(total > 0, total, 1)) @ difference
            w_k = steps.descend(mixed, batches, count, grad, scale * self.eta, self.optimizer)
            w_k, diverged = work.accept(w_k, own, batches)
            return w_k, gain, diverged

        own_models = work.gather(state.theta)
        solved, gain, diverged = work.map(each, solve, own_models, sent, work.validation)
        rows = work.gather(state.affinity)
        rows = jax.vmap(lambda row, others, gain: row.at[others].add(gain))(rows, sent, gain)
        theta = work.scatter(state.theta, solved)
        new_state = FedFomoState(theta, work.scatter(state.affinity, rows))
        dropped = jnp.sum(~arrived)
        return new_state, Outcome(Mean().solve(theta, None, None), solved, diverged, dropped)

    def _choose(self, state: FedFomoState, work: Work, n: int) -> Array:
        """Return (K, M), the parties whose models each active party receives; never itself."""
        m = min(self.m, max(n - 1, 1))
        if n == 1:
            return jnp.zeros((1, 1), jnp.int32)
        advice = "FedFomo chooses models at random."
        require(work.key is not None, "work.key", None, "a key for random numbers", advice)
        assert work.key is not None
        explore_key, noise_key = jax.random.split(work.key)
        k = len(work.cohort)
        noise = jax.random.uniform(noise_key, (k, n))  # It also breaks ties of the affinity.
        rank = jnp.argsort(jnp.lexsort((noise, work.gather(state.affinity)), axis=1), axis=1)
        explore = jax.random.bernoulli(explore_key, self.epsilon, (k, n))
        score = jnp.where(explore, n * noise, rank)
        score = score.at[jnp.arange(k), work.cohort].set(-1)
        chosen: Array = lax.top_k(score, m)[1]
        return chosen.astype(jnp.int32)

    @override
    def models(self, state: FedFomoState, parties: Array | None = None) -> Matrix:
        return state.theta if parties is None else state.theta[parties]

    @override
    def w_global(self, state: FedFomoState) -> Vector:
        """Return the mean of all models, which no party uses."""
        return Mean().solve(state.theta, None, None).w
