"""The proximal operators of the paper's ψ, for arrays of JAX and of NumPy alike.

``psi`` has what they mean. A party of a deployment takes them from here, so that it need not import
JAX in every round; ``xp`` is ``jax.numpy`` or ``numpy``.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, TypeVar

X = TypeVar("X")
"""An array of either kind."""


def quadratic(x: X, delta: Any, xp: Any) -> X:
    """Of ψ = (δ/2)‖θ‖²."""
    theta: X = x / (1 + delta)
    return theta


def l2(x: X, delta: Any, xp: Any) -> X:
    """Of ψ = δ‖θ‖₂."""
    theta: X = (1 - delta / xp.maximum(xp.linalg.norm(x), delta)) * x
    return theta


def l1(x: X, delta: Any, xp: Any) -> X:
    """Of ψ = δ‖θ‖₁: soft thresholding."""
    theta: X = x - xp.clip(x, -delta, delta)
    return theta


PROX: dict[str, Callable[[Any, Any, Any], Any]] = {
    "Zero": lambda x, delta, xp: x,
    "Anchor": lambda x, delta, xp: xp.zeros_like(x),
    "Quadratic": quadratic,
    "L2": l2,
    "L1": l1,
}
"""By the name of the class in ``psi``."""


def owner(name: str, patterns: Iterable[str]) -> str | None:
    """The first pattern that matches a parameter's name: whose ψ it has in ``Blocks``."""
    return next((pattern for pattern in patterns if fnmatchcase(name, pattern)), None)
