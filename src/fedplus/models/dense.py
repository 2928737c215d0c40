"""The dense layer that the built-in models share."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from fedplus._types import Array
from fedplus.check import require


def dense(outputs: int, inputs: int, weight: Array | None = None) -> dict[str, Array]:
    """Parameters of a dense layer, zero unless a weight (outputs, inputs) is given.

    Outputs come first: XLA's CPU products and their gradients are about twice as fast that way.
    """
    if weight is None:
        weight = jnp.zeros((outputs, inputs))
    return {"bias": jnp.zeros(outputs), "weight": weight}


def affine(layer: dict[str, Array], x: Array) -> Array:
    """Wx + b for a batch of inputs (B, inputs)."""
    return x @ layer["weight"].T + layer["bias"]


def scaled_normal(key: Array, shape: Sequence[int], fan_in: int, gain: float = 1.0) -> Array:
    """Normal entries of variance gain/fan_in; gain 2 keeps the scale through a relu (He et al.)."""
    barrier: Any = lax.optimization_barrier  # Untyped in JAX.
    entries: Array = barrier(jax.random.normal(key, tuple(shape)))  # To the bit, compiled or not.
    return math.sqrt(gain / fan_in) * entries


def flatten_batch(x: Array, inputs: int, model: str) -> Array:
    """A batch (B, ...) as (B, inputs)."""
    require_batch(x, (inputs,), model)
    return x.reshape(x.shape[0], inputs)


def require_batch(x: Array, shape: tuple[int, ...], model: str) -> None:
    """Require a batch whose samples have as many entries as ``shape``."""
    require(
        x.ndim > 0 and math.prod(x.shape[1:]) == math.prod(shape),
        f"{model}'s input",
        f"shape {x.shape}",
        f"a batch (B, ...) of {' × '.join(map(str, shape))} entries a sample",
    )


def require_sizes(model: str, **sizes: Any) -> None:
    """Require positive whole numbers.

    >>> require_sizes("logistic", classes=0)
    Traceback (most recent call last):
    fedplus.check.SettingError: logistic's classes must be a positive whole number, got 0.
    """
    for name, size in sizes.items():
        whole = isinstance(size, int) and not isinstance(size, bool)
        require(whole and size > 0, f"{model}'s {name}", repr(size), "a positive whole number")


def require_classes(model: str, classes: Any) -> None:
    """Require at least two classes."""
    require_sizes(model, classes=classes)
    require(
        classes > 1,
        f"{model}'s classes",
        classes,
        "≥ 2",
        "One logit for two classes is lstm(outputs=1), or linear(inputs)._replace(task=BINARY).",
    )
