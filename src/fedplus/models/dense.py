"""The dense layer of the built-in models, their initialisation, and checks of sizes."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from fedplus._types import Array
from fedplus.check import require


def dense(outputs: int, inputs: int, weight: Array | None = None) -> dict[str, Array]:
    """Return the parameters of a dense layer, zero unless a weight (outputs, inputs) is given.

    The axis of outputs is first because XLA's products and gradients are about twice as fast on a CPU.
    """
    if weight is None:
        weight = jnp.zeros((outputs, inputs))
    return {"bias": jnp.zeros(outputs), "weight": weight}


def affine(layer: dict[str, Array], x: Array) -> Array:
    """Return Wx + b for a batch of inputs (B, inputs)."""
    return x @ layer["weight"].T + layer["bias"]


def scaled_normal(key: Array, shape: Sequence[int], fan_in: int, gain: float = 1.0) -> Array:
    """Draw normal entries of variance gain/fan_in; gain 2 preserves the scale through a relu (He)."""
    barrier: Any = lax.optimization_barrier  # Untyped in JAX.
    # The barrier makes the bits the same whether the caller is compiled or not.
    entries: Array = barrier(jax.random.normal(key, tuple(shape)))
    return math.sqrt(gain / fan_in) * entries


def flatten_batch(x: Array, inputs: int, model: str) -> Array:
    """Reshape a batch (B, ...) to (B, inputs)."""
    require_batch(x, (inputs,), model)
    return x.reshape(x.shape[0], inputs)


def require_batch(x: Array, shape: tuple[int, ...], model: str) -> None:
    """Raise unless the samples of a batch have as many entries as ``shape``."""
    require(
        x.ndim > 0 and math.prod(x.shape[1:]) == math.prod(shape),
        f"{model}'s input",
        f"shape {x.shape}",
        f"a batch (B, ...) of {' × '.join(map(str, shape))} entries per sample",
    )


def require_sizes(model: str, **sizes: Any) -> None:
    """Raise unless all sizes are positive whole numbers.

    >>> require_sizes("logistic", classes=0)
    Traceback (most recent call last):
    fedplus.check.SettingError: logistic's classes must be a positive whole number, got 0.
    """
    for name, size in sizes.items():
        require(_is_size(size), f"{model}'s {name}", repr(size), "a positive whole number")


def is_size_list(sizes: Any, length: int | None = None) -> bool:
    """Return True for a non-empty list or tuple of positive whole numbers, of that length if given."""
    is_list = isinstance(sizes, (list, tuple)) and len(sizes) > 0 and all(map(_is_size, sizes))
    return is_list and length in (None, len(sizes))


def _is_size(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size > 0


def require_classes(model: str, classes: Any) -> None:
    """Raise unless there are at least two classes."""
    require_sizes(model, classes=classes)
    advice = (
        "With one class there is nothing to predict: check the labels, or choose another target."
    )
    require(classes > 1, f"{model}'s classes", classes, "≥ 2", advice)
