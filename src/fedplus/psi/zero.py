"""The regulariser ψ = 0, with which nothing moves a party towards w̃."""

from typing import final

from typing_extensions import override

from fedplus._backend import namespace
from fedplus._types import Array, Vector, settings
from fedplus.psi.base import AbstractPsi


@final
@settings
class Zero(AbstractPsi):
    r"""ψ(θ) = 0, so v_k = w_k − w̃ and the anchor w̃ + v_k is w_k itself.

    .. math:: \operatorname{prox}(x) = x

    Nothing moves a party towards w̃. With σ > 0, every step still moves towards the w_k with which the
    round started, which damps the steps; only σ = 0 is local SGD.

    The Moreau envelope is 0 everywhere, so any w̃ minimises it. ``Moreau`` returns the mean, where the
    paper's recursion starts and stays.

    Paper: Corollary 1 (a).

    >>> import jax.numpy as jnp
    >>> Zero().prox(jnp.array([3.0, -1.0])).tolist()
    [3.0, -1.0]
    """

    @override
    def value(self, x: Vector) -> Array:
        zero: Array = namespace(x).zeros((), x.dtype)
        return zero

    @override
    def prox(self, x: Vector) -> Vector:
        return x
