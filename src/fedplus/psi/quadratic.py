"""The regulariser ψ = (δ/2)‖θ‖² of FedAvg+."""

from typing import final

from typing_extensions import override

from fedplus._types import Array, Vector, settings
from fedplus.check import require_number
from fedplus.psi.base import AbstractPsi


@final
@settings
class Quadratic(AbstractPsi):
    r"""ψ(θ) = (δ/2)‖θ‖², whose aggregation is the mean.

    .. math:: \operatorname{prox}(x) = x / (1 + \delta)

    Args:
        delta: Share δ > 0. With a small δ, v_k is nearly w_k − w̃ and training is nearly local
            (Deviation D9).

    Paper: FedAvg+.

    >>> import jax.numpy as jnp
    >>> Quadratic(1.0).prox(jnp.array([3.0, -1.0])).tolist()
    [1.5, -0.5]
    """

    delta: float

    def __post_init__(self) -> None:
        require_number(self.delta, "Quadratic.delta", above=0, advice="For δ = 0 use Zero().")

    @override
    def value(self, x: Vector) -> Array:
        return 0.5 * self.delta * (x**2).sum()

    @override
    def prox(self, x: Vector) -> Vector:
        return x / (1 + self.delta)
