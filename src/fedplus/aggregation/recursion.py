"""The paper's own two-step iteration, kept as the reference that the fast solvers are held to."""

from typing import final

import jax
import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._check import require, require_number
from fedplus._types import Array, Matrix, Vector, epsilon, settings, static
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate
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
        tolerance: Stop when the next move is at most this share of the mean pull ‖w_k − w̃ − v_k‖.
        most: Turns at the most; then ``converged`` is False.

    Paper: eq. (xhat_iter_phi). Deviation D4: FedCoMed+ starts at the mean of the new models.
    """

    psi: AbstractPsi
    tolerance: float = 1e-6
    most: int = static(default=100_000)

    def __post_init__(self) -> None:
        require(isinstance(self.psi, AbstractPsi), "Recursion.psi", repr(self.psi), "a ψ")
        require_number(self.tolerance, "Recursion.tolerance", above=0)
        require_number(self.most, "Recursion.most", least=1)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        w_local = jnp.asarray(w_local)
        each = jnp.asarray(kernels.each_weight(w_local, weights))

        def turn(state: tuple[Vector, Array, Array, Array]) -> tuple[Vector, Array, Array, Array]:
            w, turns, _, _ = state
            step, pull = move(self.psi, w_local, each, w)
            left = jnp.linalg.norm(step)
            rounding = 2 * epsilon(w) * jnp.linalg.norm(w)
            done = left <= self.tolerance * pull + rounding
            return jnp.where(done, w, w + step), turns + 1, left, done

        mean = kernels.weighted_sum(w_local, each / jnp.sum(each))
        begin = mean if start is None else jnp.asarray(start)
        infinite = jnp.full((), jnp.inf, w_local.dtype)
        first = (begin, jnp.zeros((), jnp.int32), infinite, jnp.array(False))
        w, turns, left, done = lax.while_loop(lambda s: ~s[3] & (s[1] < self.most), turn, first)
        return Aggregate(w, turns, left, done)


def move(psi: AbstractPsi, w_local: Matrix, weights: Vector, w: Vector) -> tuple[Vector, Array]:
    """Return the recursion's step mean(w_k − w − prox(w_k − w)), and the mean length of its terms."""
    x = w_local - w
    pulls = x - jax.vmap(psi.prox)(x)
    lengths = jnp.linalg.norm(pulls, axis=1)
    total = jnp.sum(weights)
    return kernels.weighted_sum(pulls, weights / total), jnp.sum(weights * lengths) / total
