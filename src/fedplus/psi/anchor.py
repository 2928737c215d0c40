"""The regulariser ψ = 0 at 0 and +∞ elsewhere, which forbids personal parts."""

from typing import final

from typing_extensions import override

from fedplus._backend import namespace
from fedplus._types import Array, Vector, settings
from fedplus.psi.base import AbstractPsi


@final
@settings
class Anchor(AbstractPsi):
    r"""ψ(θ) = 0 at θ = 0 and +∞ elsewhere, so that v_k = 0 and the anchor is w̃ (FedAvg, FedProx).

    .. math:: \operatorname{prox}(x) = 0

    Its Moreau envelope is ½‖x‖², so 𝒜 is the mean.

    Paper: Table 1, remark on FedProx; Corollary 1 (b).

    >>> import jax.numpy as jnp
    >>> Anchor().prox(jnp.array([3.0, -1.0])).tolist()
    [0.0, 0.0]
    """

    @override
    def value(self, x: Vector) -> Array:
        xp = namespace(x)
        value: Array = xp.where(xp.any(x != 0), xp.inf, 0.0).astype(x.dtype)
        return value

    @override
    def prox(self, x: Vector) -> Vector:
        theta: Vector = namespace(x).zeros_like(x)
        return theta
