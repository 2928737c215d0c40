"""The paper's two-step recursion for 𝒜: a reference and, with momentum, the solver for any ψ."""

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, epsilon, settings, static_field
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate
from fedplus.check import require, require_bool, require_integer, require_number
from fedplus.psi import AbstractPsi


@final
@settings
class Recursion(AbstractAggregator):
    r"""The paper's recursion from ``start``, or from the mean, until w̃ no longer moves.

    .. math:: v_k \gets \operatorname{prox}_\psi(w_k - \tilde w), \qquad
              \tilde w \gets \operatorname{mean}(w) - \operatorname{mean}(v)

    An iteration is a gradient step on the Moreau envelope of ψ. It moves w̃ by at most δ, so hundreds of
    thousands of iterations may be needed; ``Moreau`` reaches the same point in a few.

    Args:
        psi: The regulariser ψ.
        tolerance: The recursion stops when the length of its next step is at most this share of the
            mean of ‖w_k − w̃ − v_k‖. Values below eight machine epsilons are raised to that.
        max_iterations: The largest number of iterations, after which ``converged`` is False.
        accelerated: True to add Nesterov's momentum.

    Paper: eq. (xhat_iter_phi). Deviation D4 in docs/deviations.md: without ``start``, the mean is that
    of the new models. Training starts at the last w̃.
    """

    psi: AbstractPsi
    tolerance: float = 1e-6
    max_iterations: int = static_field(default=100_000)
    accelerated: bool = static_field(default=False)

    def __post_init__(self) -> None:
        require(
            isinstance(self.psi, AbstractPsi),
            "Recursion.psi",
            repr(self.psi),
            "a regulariser ψ from fedplus.psi, e.g. L2(0.1)",
        )
        require_number(self.tolerance, "Recursion.tolerance", above=0)
        require_integer("Recursion.max_iterations", self.max_iterations, 1)
        require_bool("Recursion.accelerated", self.accelerated)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        w_local = jnp.asarray(w_local)
        a = jnp.asarray(kernels.weights_or_ones(w_local, weights))
        tolerance = jnp.maximum(self.tolerance, 8 * epsilon(w_local))

        def iterate(s: _State) -> _State:
            step, mean_term = recursion_step(self.psi, w_local, a, s.ahead)
            residual, count = jnp.linalg.norm(step), s.iterations + 1
            rounding = 2 * epsilon(step) * jnp.linalg.norm(s.ahead)
            converged = residual <= tolerance * mean_term + rounding
            w = jnp.where(converged, s.ahead, s.ahead + step)
            if not self.accelerated:
                return _State(w, w, s.momentum, residual, converged, count)
            is_uphill = jnp.sum(step * (w - s.w)) < 0  # Then momentum restarts.
            momentum = 0.5 * (1 + jnp.sqrt(1 + 4 * s.momentum**2))
            ahead = jnp.where(is_uphill, w, w + (s.momentum - 1) / momentum * (w - s.w))
            return _State(w, ahead, jnp.where(is_uphill, 1, momentum), residual, converged, count)

        def is_unfinished(s: _State) -> Array:
            return ~s.converged & (s.iterations < self.max_iterations)

        mean = kernels.weighted_sum(w_local, a / jnp.sum(a))
        w = mean if start is None else jnp.asarray(start)
        one, infinite = jnp.ones((), w.dtype), jnp.full((), jnp.inf, w.dtype)
        first = _State(w, w, one, infinite, jnp.array(False), jnp.zeros((), jnp.int32))
        last = lax.while_loop(is_unfinished, iterate, first)
        return Aggregate(last.w, last.iterations, last.residual, last.converged)


class _State(NamedTuple):
    w: Vector
    ahead: Vector
    """w plus momentum, where the next step is computed."""
    momentum: Array
    residual: Array
    converged: Array
    iterations: Array


def recursion_step(
    psi: AbstractPsi, w_local: Matrix, weights: Vector, w: Vector
) -> tuple[Vector, Array]:
    """Return the recursion's step, the mean of w_k − w − prox(w_k − w), and the mean of these norms."""
    x = w_local - w
    terms = x - jax.vmap(psi.prox)(x)
    lengths, share = jnp.linalg.norm(terms, axis=1), weights / jnp.sum(weights)
    return kernels.weighted_sum(terms, share), jnp.sum(share * lengths)
