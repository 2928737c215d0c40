"""L2GD: at the toss of a coin, a step of one's own or a step towards the mean."""

from typing import ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings
from fedplus.aggregation import AbstractAggregator
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require, require_number
from fedplus.local import Batch, Grad, batch_at, with_parameter_shapes
from fedplus.work import Each, Work, finite_or, first_model, run_each


class L2GDState(NamedTuple):
    """x̄ and every x_k."""

    w_global: Vector
    w_local: Matrix


@final
@settings
class L2GD(AbstractBaseline[L2GDState]):
    r"""Stochastic gradient steps on a mixture of local and global learning.

    .. math:: \min_{x_1, \dots, x_n} \frac1n\sum_k f_k(x_k) + \frac{\lambda}{2n}\sum_k\|x_k - \bar x\|^2

    With probability 1 − p all parties take x_k ← x_k − α/(n(1−p)) ∇f_k(x_k); with probability p,
    x_k ← x_k − αλ/(np) (x_k − x̄), for which they communicate. A round is as many tosses as it has
    steps; n is the number of active parties.

    Judged: the personal model x_k.

    Args:
        alpha: Step size α.
        lam: λ ≥ 0: 0 is local training.
        p: Probability of a step towards the mean, 0 < p < 1.
        aggregate: What averages the x_k; by default the mean.

    Hanzely and Richtárik, Federated Learning of a Mixture of Global and Local Models, 2020,
    Algorithm 1.
    """

    per_party: ClassVar[tuple[str, ...]] = ("w_local",)

    alpha: float
    lam: float
    p: float = 0.1
    aggregate: AbstractAggregator | None = None

    def __post_init__(self) -> None:
        require_number(self.alpha, "L2GD.alpha", above=0)
        require_number(self.lam, "L2GD.lam", least=0, advice="0 is local training.")
        require_number(self.p, "L2GD.p", above=0)
        require_number(1 - self.p, "1 − L2GD.p", above=0)
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
        require(work.key is not None, "work.key", None, "random numbers: L2GD tosses coins")
        key = jnp.asarray(work.key)
        n = len(work.cohort)
        gradient, unravel, ravel = with_parameter_shapes(grad)
        counts = jnp.broadcast_to(jnp.asarray(work.steps), (n,))
        centre = state.w_global

        def own_step(i: Array, rows: Matrix, diverged: Array) -> tuple[Matrix, Array]:
            def one(x: Vector, batches: Batch, count: Array) -> tuple[Vector, Array]:
                g = ravel(gradient(unravel(x), batch_at(batches, i)))
                moved = jnp.where(i < count, x - self.alpha / (n * (1 - self.p)) * g, x)
                return finite_or(moved, x)

            rows, now = run_each(each, one, rows, work.batches, counts)
            return rows, diverged | now

        def common_step(i: Array, rows: Matrix, diverged: Array) -> tuple[Matrix, Array]:
            result, _ = steps.aggregate_active(work, rows, centre, self.aggregate)
            moved = rows - self.alpha * self.lam / (n * self.p) * (rows - result.w)
            moved = jnp.where((i < counts)[:, None], moved, rows)
            rows, now = jax.vmap(finite_or)(moved, rows)
            return rows, diverged | now

        def toss(i: Array, carry: tuple[Matrix, Array]) -> tuple[Matrix, Array]:
            heads = jax.random.bernoulli(jax.random.fold_in(key, i), self.p)
            moved: tuple[Matrix, Array] = lax.cond(heads, common_step, own_step, i, *carry)
            return moved

        begin = work.gather(state.w_local), jnp.zeros(n, bool)
        solved, diverged = lax.fori_loop(0, jnp.max(counts), toss, begin)
        result, dropped = steps.aggregate_active(work, solved, centre, self.aggregate)
        w_local = work.scatter(state.w_local, solved)
        return L2GDState(result.w, w_local), Outcome(result, solved, diverged, dropped)

    @override
    def models(self, state: L2GDState, parties: Array | None = None) -> Matrix:
        return state.w_local if parties is None else state.w_local[parties]

    @override
    def w_global(self, state: L2GDState) -> Vector:
        return state.w_global
