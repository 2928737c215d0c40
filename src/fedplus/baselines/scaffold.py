"""SCAFFOLD: control variates against the drift of local steps."""

from typing import ClassVar, Literal, NamedTuple, final

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


class ScaffoldState(NamedTuple):
    """x, c and every c_k."""

    w_global: Vector
    control: Vector
    control_local: Matrix


@final
@settings
class Scaffold(AbstractBaseline[ScaffoldState]):
    r"""Local steps corrected by c − c_k, an estimate of how the party's gradient differs from all.

    .. math:: y_k \gets y_k - \eta_l\,(g_k(y_k) - c_k + c),
              \qquad x \gets x + \eta_g\,\overline{y_k - x}

    Judged: the global model x.

    Args:
        eta_l: Local learning rate η_l.
        eta_g: Server's step η_g.
        option: How c_k is renewed: 1, the gradient at x; 2, from the steps just done (no extra work).
        aggregate: What averages the parties' models; by default the mean.

    Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020,
    Algorithm 1.
    """

    per_party: ClassVar[tuple[str, ...]] = ("control_local",)

    eta_l: float
    eta_g: float = 1.0
    option: Literal[1, 2] = static_field(default=2)
    aggregate: AbstractAggregator | None = None

    def __post_init__(self) -> None:
        require_number(self.eta_l, "Scaffold.eta_l", above=0, advice="The local learning rate.")
        require_number(self.eta_g, "Scaffold.eta_g", above=0, advice="1 takes the mean itself.")
        require(self.option in (1, 2), "Scaffold.option", self.option, "1 or 2")
        steps.require_aggregator(self.aggregate, "Scaffold")

    @override
    def init(self, w_global: Vector, parties: int) -> ScaffoldState:
        w_global = first_model(w_global, parties)
        return ScaffoldState(
            w_global, jnp.zeros_like(w_global), jnp.zeros((parties, w_global.size), w_global.dtype)
        )

    @override
    def round(
        self, state: ScaffoldState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[ScaffoldState, Outcome]:
        parties = len(state.control_local)
        work = work.checked(parties)
        x, c = state.w_global, state.control

        def solve(c_k: Vector, batches: Batch, count: Array | int) -> tuple[Vector, Vector, Array]:
            gradient, unravel, ravel = with_parameter_shapes(grad)
            correction = unravel(c - c_k)
            y = steps.descend(
                x, batches, count, grad,
                lambda y, g: steps.add_scaled(y, -self.eta_l, steps.add_scaled(g, 1.0, correction)),
            )  # l. 9-11  # fmt: skip
            if self.option == 1:
                at_x = unravel(x)
                mean = steps.mean_over_batches(lambda b: gradient(at_x, b), batches, count)
                renewed = ravel(mean)
            else:
                renewed = c_k - c + (x - y) / (jnp.maximum(count, 1) * self.eta_l)
            renewed = jnp.where(jnp.asarray(count) > 0, renewed, c_k)  # l. 12
            (y, renewed), diverged = finite_or((y, renewed), (x, c_k))
            return y, renewed, diverged

        before = work.gather(state.control_local)
        solved, renewed, diverged = work.map(each, solve, before)
        control_local = work.scatter(state.control_local, renewed)
        result, dropped = steps.aggregate_active(work, solved, x, self.aggregate)
        w_global = x + self.eta_g * (result.w - x)  # l. 16-17
        ones = jnp.ones(len(before), before.dtype)
        moved = ones @ (work.gather(control_local) - before) / parties
        return (
            ScaffoldState(w_global, c + moved, control_local),
            Outcome(result, solved, diverged, dropped),
        )

    @override
    def models(self, state: ScaffoldState, parties: Array | None = None) -> Matrix:
        return steps.broadcast_model(state.w_global, len(state.control_local), parties)

    @override
    def w_global(self, state: ScaffoldState) -> Vector:
        return state.w_global
