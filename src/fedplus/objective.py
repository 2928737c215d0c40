r"""The objective that Fed+ minimises, and the distance of a state from a fixed point.

They check a run against the theory: F_σ must not increase from round to round (Theorem 1, for
η ≤ 1/L_f, full gradients and ``over="all"``), and both residuals of Theorem 2 are 0 at a fixed point.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import Moreau
from fedplus.check import require, require_number
from fedplus.psi import AbstractPsi


class FixedPoint(NamedTuple):
    """The residuals of Theorem 2's conditions at (W, w̃). Both are 0 at a fixed point of Fed+."""

    consensus: Array
    """‖(1/N) Σ_k σ(z_k − w_k)‖₂, which equals ‖(1/N) Σ_k ∇f̂_k(z_k)‖₂ if ``local`` is 0."""
    local: Vector
    """(N,): ‖∇f_k(w_k) + σ(w_k − z_k)‖₂. For convex f_k it is 0 iff w_k = z_k − (1/σ)∇f̂_k(z_k)."""


@final
@settings
class Objective:
    """The functions H_σ, F_σ and F_k of a federation, and their gradients.

    Args:
        psi: The regulariser ψ = Ψ/σ.
        sigma: Penalty constant σ > 0.
        data: The parties' data, a pytree whose leaves have N as first axis.
        loss: (w, data_k) ↦ f_k(w).

    Paper: eqs. (FPz), (Fmu) and (Fk_def); Theorems 1 and 2.
    """

    psi: AbstractPsi
    sigma: float
    data: Any
    loss: Callable[[Vector, Any], Array] = static_field()

    def __post_init__(self) -> None:
        require(
            isinstance(self.psi, AbstractPsi),
            "Objective.psi",
            repr(self.psi),
            "a regulariser ψ from fedplus.psi, e.g. L2(0.1)",
        )
        require_number(
            self.sigma, "Objective.sigma", above=0, advice="Fed+'s objective needs σ > 0."
        )
        require(
            callable(self.loss), "Objective.loss", repr(self.loss), "a function (w, data_k) -> f_k"
        )

    def losses(self, w_local: Matrix) -> Vector:
        """Return (N,), f_k(w_k) of each party."""
        return jax.vmap(self.loss)(w_local, self.data)

    def theta(self, w_local: Matrix, w_global: Vector) -> Matrix:
        """Return (N, d), v_k = prox(w_k − w̃) of each party, eq. (zk_rp_def)."""
        return jax.vmap(self.psi.prox)(w_local - w_global)

    def h(self, w_local: Matrix, theta: Matrix, w_global: Vector) -> Array:
        """Return H_σ(W, Θ, w̃), eq. (FPz)."""
        gap = 0.5 * self.sigma * jnp.sum((w_local - w_global - theta) ** 2, axis=1)
        penalty = self.sigma * jax.vmap(self.psi.value)(theta)
        return jnp.mean(self.losses(w_local) + penalty + gap)

    def f_sigma(self, w_local: Matrix, w_global: Vector | None = None) -> Array:
        """Return F_σ(W), the minimum of H_σ(W, Θ, w̃) over Θ and w̃, eq. (Fmu).

        Args:
            w_local: (N, d), W.
            w_global: (d,), w̃ = 𝒜(W). None: it is computed.
        """
        w = Moreau(self.psi)(w_local).w if w_global is None else w_global
        return self.h(w_local, self.theta(w_local, w), w)

    def f_k(self, w_k: Vector, theta_k: Vector, w_global: Vector, data_k: Any) -> Array:
        """Return F_k(w_k; v_k, w̃), eq. (Fk_def), on which party k descends in a round."""
        gap = 0.5 * self.sigma * jnp.sum((w_k - w_global - theta_k) ** 2)
        return self.loss(w_k, data_k) + gap

    def grad_f_k(self, w_local: Matrix, w_global: Vector) -> Matrix:
        """Return (N, d), ∇F_k(w_k; v_k, w̃) with v_k = prox(w_k − w̃), which tends to 0 (Theorem 1)."""
        theta = self.theta(w_local, w_global)
        each = jax.vmap(jax.grad(self.f_k), in_axes=(0, 0, None, 0))
        gradients: Matrix = each(w_local, theta, w_global, self.data)
        return gradients

    def grad_f_sigma(self, w_local: Matrix) -> Matrix:
        """Return (N, d), ∂F_σ/∂w_k: ∇F_k / N at w̃ = 𝒜(W), by the envelope theorem."""
        return self.grad_f_k(w_local, Moreau(self.psi)(w_local).w) / w_local.shape[0]

    def fixed_point(self, w_local: Matrix, w_global: Vector) -> FixedPoint:
        """Return the residuals of Theorem 2, which need no inner minimisation."""
        z = w_global + self.theta(w_local, w_global)
        consensus = jnp.linalg.norm(jnp.mean(self.sigma * (z - w_local), axis=0))
        return FixedPoint(consensus, jnp.linalg.norm(self.grad_f_k(w_local, w_global), axis=1))
