"""The regulariser ψ = δ‖θ‖₂ of FedGeoMed+."""

from typing import final

from typing_extensions import override

from fedplus._backend import namespace
from fedplus._types import Array, Vector, settings
from fedplus.check import require_number
from fedplus.psi.base import AbstractPsi


@final
@settings
class L2(AbstractPsi):
    r"""ψ(θ) = δ‖θ‖₂, whose aggregation is the δ-geometric median.

    .. math:: \operatorname{prox}(x) = \max\{0,\, 1 - \delta/\|x\|_2\}\, x

    A party whose model is within δ of w̃ has v_k = 0 exactly.

    Args:
        delta: Radius δ > 0 of the whole vector (not of a coordinate), in parameter units.

    Paper: FedGeoMed+.

    >>> import jax.numpy as jnp
    >>> L2(1.0).prox(jnp.array([3.0, 4.0])).round(3).tolist()
    [2.4..., 3.2...]
    """

    delta: float

    def __post_init__(self) -> None:
        require_number(self.delta, "L2.delta", above=0, advice="For δ = 0 use Zero().")

    @override
    def value(self, x: Vector) -> Array:
        value: Array = self.delta * namespace(x).sqrt((x**2).sum())
        return value

    @override
    def prox(self, x: Vector) -> Vector:
        xp = namespace(x, self.delta)
        theta: Vector = (1 - self.delta / xp.maximum(xp.linalg.norm(x), self.delta)) * x
        return theta
