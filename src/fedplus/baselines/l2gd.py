"""L2GD: at random, either a local gradient step of all parties or a step towards their mean."""

from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings
from fedplus.aggregation import AbstractAggregator
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require, require_learning_rate, require_number
from fedplus.local import Batch, Grad, batch_at, with_parameter_shapes
from fedplus.work import Each, Work, finite_or, first_model, run_each


class L2GDState(NamedTuple):
    """The state of L2GD."""

    w_global: Vector
    """(d,): x̄."""
    w_local: Matrix
    """(N, d): x_k."""


@final
@settings
class L2GD(AbstractBaseline[L2GDState]):
    r"""Loopless local gradient descent on a mixture of the local and the global objective.

    .. math:: \min_{x_1, \dots, x_n} \frac1n\sum_k f_k(x_k) + \frac{\lambda}{2n}\sum_k\|x_k - \bar x\|^2

    With probability 1 − p all parties take x_k ← x_k − α/(n(1−p)) ∇f_k(x_k); with probability p,
    x_k ← x_k − αλ/(np) (x_k − x̄), for which they communicate. Each step of a round is one such draw;
    n is the number of active parties. The model that is evaluated is the personal model x_k.

    Args:
        alpha: Step size α > 0.
        lam: Weight λ ≥ 0 of the distance to the mean: 0 is local training.
        p: Probability of a step towards the mean, 0 < p < 1.
        aggregate: The aggregator of the x_k. By default the mean.

    Paper: Hanzely and Richtárik, Federated Learning of a Mixture of Global and Local Models, 2020,
    Algorithm 1.
    """

    per_party: ClassVar[tuple[str, ...]] = ("w_local",)
    learning_rates: ClassVar[tuple[str, ...]] = ("alpha",)
    can_join: ClassVar[bool] = False

    alpha: float
    lam: float
    p: float = 0.1
    aggregate: AbstractAggregator | None = None

    def __post_init__(self) -> None:
        require_learning_rate(self.alpha, "L2GD.alpha")
        require_number(self.lam, "L2GD.lam", least=0, advice="0 is local training.")
        require_number(self.p, "L2GD.p", above=0, below=1)
        steps.require_aggregator(self.aggregate, "L2GD")

    @override
    def init(self, w_global: Vector, parties: int) -> L2GDState:
        w_global = first_model(w_global, parties)
        return L2GDState(w_global, jnp.tile(w_global, (parties, 1)))

    @override
    def round(
        self, state: L2GDState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[L2GDState, Outcome]:
        work = work.checked(len(state.w_local))
        advice = "L2GD draws the kind of each step."
        require(work.key is not None, "work.key", None, "a key for random numbers", advice)
        key = jnp.asarray(work.key)
        n = len(work.cohort)
        gradient, unravel, ravel = with_parameter_shapes(grad)
        counts = jnp.broadcast_to(jnp.asarray(work.steps), (n,))
        centre = state.w_global

        before = work.gather(state.w_local)

        def local_step(alpha: Any, i: Array, rows: Matrix, diverged: Array) -> tuple[Matrix, Array]:
            def step_of_party(x: Vector, batches: Batch, count: Array) -> tuple[Vector, Array]:
                g = ravel(gradient(unravel(x), batch_at(batches, i)))
                new_x = jnp.where(i < count, x - alpha / (n * (1 - self.p)) * g, x)
                return finite_or(new_x, x)

            rows, newly_diverged = run_each(each, step_of_party, rows, work.batches, counts)
            return rows, diverged | newly_diverged

        def mean_step(alpha: Any, i: Array, rows: Matrix, diverged: Array) -> tuple[Matrix, Array]:
            result, _ = steps.aggregate_active(work, rows, centre, self.aggregate)
            new_rows = rows - alpha * self.lam / (n * self.p) * (rows - result.w)
            new_rows = jnp.where((i < counts)[:, None], new_rows, rows)
            rows, newly_diverged = jax.vmap(finite_or)(new_rows, rows)
            return rows, diverged | newly_diverged

        def attempt(scale: Any) -> tuple[Matrix, Array]:
            alpha = scale * self.alpha

            def step(i: Array, carry: tuple[Matrix, Array]) -> tuple[Matrix, Array]:
                communicate = jax.random.bernoulli(jax.random.fold_in(key, i), self.p)
                branches = mean_step, local_step
                new: tuple[Matrix, Array] = lax.cond(communicate, *branches, alpha, i, *carry)
                return new

            carry = before, jnp.zeros(n, bool)
            rows, diverged = lax.fori_loop(0, jnp.max(counts), step, carry)
            rows, verdict = run_each(each, work.accept, rows, before, work.batches)
            return rows, diverged | verdict

        # The parties meet within a round, so all of them repeat it if one diverges.
        solved, diverged = work.repeat_if_diverged(attempt, work.backoff)
        result, dropped = steps.aggregate_active(work, solved, centre, self.aggregate)
        w_local = work.scatter(state.w_local, solved)
        return L2GDState(result.w, w_local), Outcome(result, solved, diverged, dropped)

    @override
    def models(self, state: L2GDState, parties: Array | None = None) -> Matrix:
        return state.w_local if parties is None else state.w_local[parties]

    @override
    def w_global(self, state: L2GDState) -> Vector:
        return state.w_global
