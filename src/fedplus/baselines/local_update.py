"""LocalUpdate: parties send a weighted sum of the gradients of their local steps."""

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
from fedplus.local import (
    Batch,
    Grad,
    Params,
    available_steps,
    batch_at,
    repeat_steps,
    with_parameter_shapes,
)
from fedplus.work import Each, Work, first_model


class LocalUpdateState(NamedTuple):
    """The state of LocalUpdate."""

    w_global: Vector
    """(d,): x."""
    parties: Array
    """(N,): zeros, which only say how many parties there are."""


@final
@settings
class LocalUpdate(AbstractBaseline[LocalUpdateState]):
    r"""Steps of size γ from the global model x; the server descends along Σ_j θ_j g_j.

    .. math:: y_{j+1} = y_j - \gamma g_j(y_j), \qquad
              x \gets x - \eta\,\overline{\textstyle\sum_j \theta_j g_j(y_j)}

    With γ = η and θ_j = 1 for all steps it is FedAvg, with γ = 0 it is mini-batch SGD, and with θ_j = 1
    for the last step only it is FOMAML. The model that is evaluated is the global model x.

    Args:
        eta: Learning rate η > 0 of the server.
        gamma: Learning rate γ ≥ 0 of the local steps.
        theta: The steps whose gradients are sent: "all" or the "last".
        aggregate: The aggregator of the parties' updates, added to x. By default the mean.

    Paper: Charles and Konečný, On the Outsized Importance of Learning Rates in Local Update Methods,
    2020, Algorithms 1 and 2.
    """

    per_party: ClassVar[tuple[str, ...]] = ("parties",)
    learning_rates: ClassVar[tuple[str, ...]] = ("eta", "gamma")

    eta: float
    gamma: float
    theta: Literal["all", "last"] = static_field(default="all")
    aggregate: AbstractAggregator | None = None

    def __post_init__(self) -> None:
        require_learning_rate(self.eta, "LocalUpdate.eta")
        require_number(self.gamma, "LocalUpdate.gamma", least=0)
        require(self.theta in ("all", "last"), "LocalUpdate.theta", self.theta, '"all" or "last"')
        steps.require_aggregator(self.aggregate, "LocalUpdate")

    @override
    def init(self, w_global: Vector, parties: int) -> LocalUpdateState:
        return LocalUpdateState(first_model(w_global, parties), jnp.zeros(parties))

    @override
    def round(
        self, state: LocalUpdateState, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[LocalUpdateState, Outcome]:
        work = work.checked(len(state.parties))
        x = state.w_global

        def solve(scale: Any, batches: Batch, count: Array | int) -> tuple[Vector, Array]:
            gradient, unravel, ravel = with_parameter_shapes(grad)

            def step(i: Array, carry: tuple[Params, Params]) -> tuple[Params, Params]:
                y, total = carry
                g = gradient(y, batch_at(batches, i))
                share = 1.0 if self.theta == "all" else jnp.where(i == count - 1, 1.0, 0.0)
                return steps.add_scaled(y, -scale * self.gamma, g), steps.add_scaled(
                    total, share, g
                )

            first = unravel(x), unravel(jnp.zeros_like(x))
            _, total = repeat_steps(step, count, first, available_steps(batches))
            return work.accept(x - scale * self.eta * ravel(total), x, batches)

        solved, diverged = work.map(each, solve)
        result, dropped = steps.aggregate_active(work, solved, x, self.aggregate)
        return LocalUpdateState(result.w, state.parties), Outcome(result, solved, diverged, dropped)

    @override
    def models(self, state: LocalUpdateState, parties: Array | None = None) -> Matrix:
        return steps.broadcast_model(state.w_global, len(state.parties), parties)

    @override
    def w_global(self, state: LocalUpdateState) -> Vector:
        return state.w_global
