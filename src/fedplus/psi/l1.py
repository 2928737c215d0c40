"""The regulariser ψ = δ‖θ‖₁ of FedCoMed+."""

from typing import final

from typing_extensions import override

from fedplus._backend import namespace
from fedplus._types import Array, Vector, settings
from fedplus.check import require_number
from fedplus.psi.base import AbstractPsi


@final
@settings
class L1(AbstractPsi):
    r"""ψ(θ) = δ‖θ‖₁, whose aggregation is the δ-coordinatewise median.

    .. math:: \operatorname{prox}(x) = \operatorname{sign}(x)\max\{|x| - \delta,\, 0\}

    Args:
        delta: Threshold δ > 0, in parameter units.

    Paper: FedCoMed+, eq. (soft_thresholding). Deviation D3: the printed formula is one-sided.

    >>> import jax.numpy as jnp
    >>> L1(1.0).prox(jnp.array([3.0, -1.5, 0.5])).tolist()
    [2.0, -0.5, 0.0]
    """

    delta: float

    def __post_init__(self) -> None:
        require_number(self.delta, "L1.delta", above=0, advice="For δ = 0 use Zero().")

    @override
    def value(self, x: Vector) -> Array:
        return self.delta * abs(x).sum()

    @override
    def prox(self, x: Vector) -> Vector:
        theta: Vector = x - namespace(x, self.delta).clip(x, -self.delta, self.delta)
        return theta
