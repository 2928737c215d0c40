"""HypCluster: a few models, of which each party takes the one that suits it best."""

from typing import ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator, Aggregate, Mean
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require_integer, require_number
from fedplus.local import Batch, Grad
from fedplus.uploads import Uploads
from fedplus.work import Each, Work, finite_or, first_model


class HypClusterState(NamedTuple):
    """The models h_1, ..., h_q, and which of them each party last took."""

    centres: Matrix
    choice: Array


@final
@settings
class HypCluster(AbstractBaseline[HypClusterState]):
    """Each party trains the model with the lowest loss on its data; each model is averaged by itself.

    The loss that a party compares by is over its minibatches of the round.

    Judged: the model that the party took when it last took part.

    Args:
        eta: η.
        q: How many models.
        spread: Standard deviation of the noise that tells them apart at first, the same in every run.
        aggregate: What averages the models of a cluster; by default the mean.

    Mansour, Mohri, Ro and Suresh, Three Approaches for Personalization with Applications to Federated
    Learning, 2020, Algorithm HypCluster.
    """

    per_party: ClassVar[tuple[str, ...]] = ("choice",)

    eta: float
    q: int = static_field(default=2)
    spread: float = 0.01
    aggregate: AbstractAggregator | None = None

    def __post_init__(self) -> None:
        require_number(self.eta, "HypCluster.eta", above=0)
        require_integer("HypCluster.q", self.q, kinds=int)
        require_number(self.spread, "HypCluster.spread", least=0)
        steps.require_aggregator(self.aggregate, "HypCluster")

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

        def solve(batches: Batch, count: Array | int) -> tuple[Vector, Array, Array]:
            def losses(batch: Batch) -> Vector:
                return jnp.stack([loss(centre, batch) for centre in centres])

            mine = jnp.argmin(steps.mean_over_batches(losses, batches, count)).astype(jnp.int32)
            begin = centres[mine]
            w_k = steps.descend(
                begin, batches, count, grad, lambda w, g: steps.add_scaled(w, -self.eta, g)
            )
            w_k, diverged = finite_or(w_k, begin)
            return w_k, mine, diverged

        solved, mine, diverged = work.map(each, solve)
        uploads = Uploads.of_cohort(work, solved, centres[0])
        weights = uploads.weights
        weights = jnp.ones(len(solved), solved.dtype) if weights is None else weights
        found: list[Aggregate] = []
        for c in range(self.q):
            cluster = Uploads(uploads.models, weights * (mine == c))
            found.append(cluster.aggregate(self.aggregate or Mean(), centres[c])[0])
        after = HypClusterState(
            jnp.stack([one.w for one in found]), work.scatter(state.choice, mine)
        )
        result = Aggregate(
            self.w_global(after),
            jnp.stack([one.iterations for one in found]).max(),
            jnp.stack([one.residual for one in found]).max(),
            jnp.stack([one.converged for one in found]).all(),
        )
        return after, Outcome(result, solved, diverged, jnp.sum(weights == 0))

    @override
    def models(self, state: HypClusterState, parties: Array | None = None) -> Matrix:
        return state.centres[state.choice if parties is None else state.choice[parties]]

    @override
    def w_global(self, state: HypClusterState) -> Vector:
        """The model that most parties took."""
        return state.centres[jnp.argmax(jnp.bincount(state.choice, length=self.q))]
