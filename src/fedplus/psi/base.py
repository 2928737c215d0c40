r"""The interface of a regulariser ψ: a convex function with a cheap proximal operator.

The paper writes Ψ; this package stores ψ = Ψ/σ, so that every formula also holds for σ = 0. Then

.. math:: \operatorname{prox}^{1/\sigma}_\Psi(x) = \operatorname{prox}_\psi(x), \qquad
          \hat\Psi_{1/\sigma}(x) = \sigma\,\hat\psi(x).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self, final

from typing_extensions import override

from fedplus._types import Array, Vector, register_settings, settings, static_field
from fedplus.check import require


class AbstractPsi(ABC):
    """A convex function ψ: ℝᵈ → [0, ∞] with ψ(0) = 0. Subclasses implement ``value`` and ``prox``.

    To write another ψ, either pass two functions to :class:`Custom` or, for a ψ with tunable settings,
    write a subclass and decorate it with ``fedplus.settings``. Both work under ``jit`` and ``vmap`` and
    with ``Moreau``.

    Every ψ of this package returns NumPy arrays for NumPy arrays, without importing JAX, and JAX arrays
    for JAX arrays.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create an instance. If JAX has been imported in the meantime, register the class with it."""
        register_settings()
        return super().__new__(cls)

    @abstractmethod
    def value(self, x: Vector) -> Array:
        """Return ψ(x), a scalar.

        Args:
            x: (d,).
        """

    @abstractmethod
    def prox(self, x: Vector) -> Vector:
        """Return the argmin over θ of ψ(θ) + ½‖x − θ‖², the personal part v_k for x = w_k − w̃.

        Args:
            x: (d,).
        """

    @final
    def envelope(self, x: Vector) -> Array:
        """Return the Moreau envelope min over θ of ψ(θ) + ½‖x − θ‖²; its gradient is x − prox(x).

        Args:
            x: (d,).
        """
        theta = self.prox(x)
        return self.value(theta) + 0.5 * ((x - theta) ** 2).sum()


@final
@settings
class Custom(AbstractPsi):
    """A ψ given by two functions.

    Args:
        value_of: x ↦ ψ(x), which is convex and 0 at 0.
        prox_of: x ↦ argmin over θ of ψ(θ) + ½‖x − θ‖².

    >>> import jax.numpy as jnp
    >>> box = Custom(lambda x: jnp.where(jnp.all(abs(x) <= 1), 0.0, jnp.inf),
    ...              lambda x: jnp.clip(x, -1.0, 1.0))
    >>> box.prox(jnp.array([-3.0, 0.5])).tolist()
    [-1.0, 0.5]
    """

    value_of: Callable[[Vector], Array] = static_field()
    prox_of: Callable[[Vector], Vector] = static_field()

    def __post_init__(self) -> None:
        for name in ("value_of", "prox_of"):
            got = getattr(self, name)
            require(callable(got), f"Custom.{name}", repr(got), "a function of one vector")

    @override
    def value(self, x: Vector) -> Array:
        return self.value_of(x)

    @override
    def prox(self, x: Vector) -> Vector:
        return self.prox_of(x)
