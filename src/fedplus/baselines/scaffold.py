"""SCAFFOLD: control variates that correct the drift of local steps."""

from typing import Any, ClassVar, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator
from fedplus.algorithm import Outcome
from fedplus.baselines import steps
from fedplus.baselines.base import AbstractBaseline
from fedplus.check import require, require_learning_rate, require_number
from fedplus.local import Batch, Grad, Params, with_parameter_shapes
from fedplus.work import Each, Work, first_model


class ScaffoldState(NamedTuple):
    """The state of SCAFFOLD."""

    w_global: Vector
    """(d,): x."""
    control: Vector
    """(d,): c, the server's control variate."""
    control_local: Matrix
    """(N, d): c_k, the parties' control variates."""


@final
@settings
class Scaffold(AbstractBaseline[ScaffoldState]):
    r"""FedAvg with local steps corrected by c − c_k, the difference of mean and own gradient.

    .. math:: y_k \gets y_k - \eta_l\,(g_k(y_k) - c_k + c),
              \qquad x \gets x + \eta_g\,\overline{y_k - x}

    The model that is evaluated is the global model x. If parties have weights, such as their numbers of
    samples, c is the weighted mean of the c_k, as x is of the models: with an unweighted c, the fixed
    point would not minimise the weighted loss. Without weights, this is the paper's algorithm.

    Args:
        eta_l: Local learning rate η_l > 0.
        eta_g: Step size η_g > 0 of the server towards the aggregate; 1 takes the aggregate.
        option: How c_k is updated: 1, by the gradient at x; 2, from the local steps, at no extra cost.
        aggregate: The aggregator of the parties' models. By default the mean.
        optimizer: The optimizer of local steps, as in ``LocalSolve``, with a new state in every round.

    Paper: Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML
    2020, Algorithm 1.
    """

    per_party: ClassVar[tuple[str, ...]] = ("control_local",)
    learning_rates: ClassVar[tuple[str, ...]] = ("eta_l",)

    eta_l: float
    eta_g: float = 1.0
    option: Literal[1, 2] = static_field(default=2)
    aggregate: AbstractAggregator | None = None
    optimizer: steps.Optimizer = static_field(default="sgd")

    def __post_init__(self) -> None:
        require_learning_rate(self.eta_l, "Scaffold.eta_l")
        require_number(self.eta_g, "Scaffold.eta_g", above=0, advice="1 takes the aggregate.")
        require(self.option in (1, 2), "Scaffold.option", self.option, "1 or 2")
        steps.require_aggregator(self.aggregate, "Scaffold")
        steps.require_optimizer(self.optimizer, "Scaffold")
        require(
            self.option == 1 or self.optimizer == "sgd", "Scaffold.optimizer", self.optimizer,
            '"sgd" with option 2',
            "Option 2 takes (x − y) / η_l for a sum of gradients. Set option to 1.",
        )  # fmt: skip

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

        def solve(
            scale: Any, c_k: Vector, batches: Batch, count: Array | int
        ) -> tuple[Vector, Vector, Array]:
            gradient, unravel, ravel = with_parameter_shapes(grad)
            correction = unravel(c - c_k)

            def corrected(y: Params, g: Params) -> Params:
                return steps.add_scaled(g, 1.0, correction)

            eta = scale * self.eta_l
            y = steps.descend(x, batches, count, grad, eta, self.optimizer, corrected)  # l. 9-11
            if self.option == 1:
                params = unravel(x)
                mean = steps.mean_over_batches(lambda b: gradient(params, b), batches, count)
                new_c_k = ravel(mean)
            else:
                new_c_k = c_k - c + (x - y) / (jnp.maximum(count, 1) * eta)
                new_c_k = jnp.where(eta > 0, new_c_k, c_k)  # A schedule may reach 0.
            new_c_k = jnp.where(jnp.asarray(count) > 0, new_c_k, c_k)  # l. 12
            (y, new_c_k), diverged = work.accept((y, new_c_k), (x, c_k), batches)
            return y, new_c_k, diverged

        before = work.gather(state.control_local)
        solved, new_c_k, diverged = work.map(each, solve, before)
        control_local = work.scatter(state.control_local, new_c_k)
        result, dropped = steps.aggregate_active(work, solved, x, self.aggregate)
        w_global = x + self.eta_g * (result.w - x)  # l. 16-17
        weights = jnp.ones(parties) if work.weights is None else work.weights
        shares = work.gather(weights / jnp.sum(weights)).astype(before.dtype)
        control = c + shares @ (work.gather(control_local) - before)
        new_state = ScaffoldState(w_global, control, control_local)
        return new_state, Outcome(result, solved, diverged, dropped)

    @override
    def models(self, state: ScaffoldState, parties: Array | None = None) -> Matrix:
        return steps.broadcast_model(state.w_global, len(state.control_local), parties)

    @override
    def w_global(self, state: ScaffoldState) -> Vector:
        return state.w_global
