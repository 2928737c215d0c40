"""HypCluster: a few cluster models, of which each party uses the one with the lowest loss."""

from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator, Aggregate, Mean
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require_integer, require_learning_rate, require_number
from fedplus.local import Batch, Grad
from fedplus.uploads import Uploads
from fedplus.work import Each, Work, first_model


class HypClusterState(NamedTuple):
    """The state of HypCluster."""

    centres: Matrix
    """(q, d): the cluster models h_1, ..., h_q."""
    choice: Array
    """(N,): the index of the model that each party chose last."""


@final
@settings
class HypCluster(AbstractBaseline[HypClusterState]):
    """Clustering: each party trains the cluster model with the lowest loss on its samples.

    A party compares losses on its minibatches of the round. The models of the parties that chose the
    same cluster are aggregated. The model that is evaluated is the one that the party chose last.

    Args:
        eta: Learning rate η > 0.
        q: The number of cluster models.
        spread: Standard deviation of the noise in the first models, which is the same in every run.
        aggregate: The aggregator of the models of a cluster. By default the mean.
        optimizer: The optimizer of local steps, as in ``LocalSolve``, with a new state in every round.

    Paper: Mansour, Mohri, Ro and Suresh, Three Approaches for Personalization with Applications to
    Federated Learning, 2020, Algorithm HypCluster.
    """

    per_party: ClassVar[tuple[str, ...]] = ("choice",)

    eta: float
    q: int = static_field(default=2)
    spread: float = 0.01
    aggregate: AbstractAggregator | None = None
    optimizer: steps.Optimizer = static_field(default="sgd")

    def __post_init__(self) -> None:
        require_learning_rate(self.eta, "HypCluster.eta")
        require_integer("HypCluster.q", self.q, kinds=int)
        require_number(self.spread, "HypCluster.spread", least=0)
        steps.require_aggregator(self.aggregate, "HypCluster")
        steps.require_optimizer(self.optimizer, "HypCluster")

    @override
    def init(self, w_global: Vector, parties: int) -> HypClusterState:
        w_global = first_model(w_global, parties)
        shape = (self.q, w_global.size)
        noise = jax.random.normal(jax.random.key(0), shape, w_global.dtype).at[0].set(0)
        return HypClusterState(w_global + self.spread * noise, jnp.zeros(parties, jnp.int32))

    @override
    def round(
        self, state: HypClusterState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[HypClusterState, Outcome]:
        work = work.checked(len(state.choice))
        loss = steps.mean_loss(grad, "HypCluster")
        centres = state.centres

        def solve(scale: Any, batches: Batch, count: Array | int) -> tuple[Vector, Array, Array]:
            def losses(batch: Batch) -> Vector:
                return jnp.stack([loss(centre, batch) for centre in centres])

            choice = jnp.argmin(steps.mean_over_batches(losses, batches, count)).astype(jnp.int32)
            first = centres[choice]
            w_k = steps.descend(first, batches, count, grad, scale * self.eta, self.optimizer)
            w_k, diverged = work.accept(w_k, first, batches)
            return w_k, choice, diverged

        solved, choice, diverged = work.map(each, solve)
        uploads = Uploads.of_cohort(work, solved, centres[0])
        weights = uploads.weights
        weights = jnp.ones(len(solved), solved.dtype) if weights is None else weights
        clusters: list[Aggregate] = []
        for c in range(self.q):
            cluster = Uploads(uploads.models, weights * (choice == c))
            clusters.append(cluster.aggregate(self.aggregate or Mean(), centres[c])[0])
        new_centres = jnp.stack([cluster.w for cluster in clusters])
        new_state = HypClusterState(new_centres, work.scatter(state.choice, choice))
        result = Aggregate(
            self.w_global(new_state),
            jnp.stack([cluster.iterations for cluster in clusters]).max(),
            jnp.stack([cluster.residual for cluster in clusters]).max(),
            jnp.stack([cluster.converged for cluster in clusters]).all(),
        )
        return new_state, Outcome(result, solved, diverged, uploads.dropped)

    @override
    def models(self, state: HypClusterState, parties: Array | None = None) -> Matrix:
        return state.centres[state.choice if parties is None else state.choice[parties]]

    @override
    def w_global(self, state: HypClusterState) -> Vector:
        """Return the model that most parties chose last."""
        return state.centres[jnp.argmax(jnp.bincount(state.choice, length=self.q))]
