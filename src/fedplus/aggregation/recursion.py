"""The paper's own two-step iteration: the reference, and with momentum the solver for any ψ."""

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, epsilon, settings, static_field
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate
from fedplus.check import require, require_integer, require_number
from fedplus.psi import AbstractPsi


@final
@settings
class Recursion(AbstractAggregator):
    r"""The paper's iteration, from the mean until w̃ stands still.

    .. math:: v_k \gets \operatorname{prox}_\psi(w_k - \tilde w), \qquad
              \tilde w \gets \operatorname{mean}(w) - \operatorname{mean}(v)

    It moves at most δ a turn, so it can take hundreds of thousands of turns; ``Moreau`` reaches the
    same point in a few.

    Args:
        psi: ψ.
        tolerance: Stop when the next move is at most this share of the mean pull ‖w_k − w̃ − v_k‖. It is
            at least eight rounding units.
        most: Turns at the most; then ``converged`` is False.
        accelerated: Whether to add Nesterov's momentum, since a turn is a gradient step on the Moreau
            envelope of ψ.

    Paper: eq. (xhat_iter_phi). Deviation D4: FedCoMed+ starts at the mean of the new models.
    """

    psi: AbstractPsi
    tolerance: float = 1e-6
    most: int = static_field(default=100_000)
    accelerated: bool = static_field(default=False)

    def __post_init__(self) -> None:
        require(isinstance(self.psi, AbstractPsi), "Recursion.psi", repr(self.psi), "a ψ")
        require_number(self.tolerance, "Recursion.tolerance", above=0)
        require_integer("Recursion.most", self.most, 1)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        w_local = jnp.asarray(w_local)
        each = jnp.asarray(kernels.weights_or_ones(w_local, weights))
        tolerance = jnp.maximum(self.tolerance, 8 * epsilon(w_local))

        def turn(s: _State) -> _State:
            step, pull = recursion_step(self.psi, w_local, each, s.ahead)
            left = jnp.linalg.norm(step)
            done = left <= tolerance * pull + 2 * epsilon(step) * jnp.linalg.norm(s.ahead)
            w = jnp.where(done, s.ahead, s.ahead + step)
            if not self.accelerated:
                return _State(w, w, s.momentum, left, done, s.turns + 1)
            uphill = jnp.sum(step * (w - s.w)) < 0  # Then momentum begins anew.
            grown = 0.5 * (1 + jnp.sqrt(1 + 4 * s.momentum**2))
            ahead = jnp.where(uphill, w, w + (s.momentum - 1) / grown * (w - s.w))
            return _State(w, ahead, jnp.where(uphill, 1, grown), left, done, s.turns + 1)

        mean = kernels.weighted_sum(w_local, each / jnp.sum(each))
        begin = mean if start is None else jnp.asarray(start)
        one, infinite = jnp.ones((), begin.dtype), jnp.full((), jnp.inf, begin.dtype)
        first = _State(begin, begin, one, infinite, jnp.array(False), jnp.zeros((), jnp.int32))
        last = lax.while_loop(lambda s: ~s.done & (s.turns < self.most), turn, first)
        return Aggregate(last.w, last.turns, last.left, last.done)


class _State(NamedTuple):
    w: Vector
    ahead: Vector
    """The point that momentum leads to."""
    momentum: Array
    left: Array
    done: Array
    turns: Array


def recursion_step(
    psi: AbstractPsi, w_local: Matrix, weights: Vector, w: Vector
) -> tuple[Vector, Array]:
    """Return the recursion's step mean(w_k − w − prox(w_k − w)), and the mean length of its terms."""
    x = w_local - w
    pulls = x - jax.vmap(psi.prox)(x)
    lengths, share = jnp.linalg.norm(pulls, axis=1), weights / jnp.sum(weights)
    return kernels.weighted_sum(pulls, share), jnp.sum(share * lengths)
