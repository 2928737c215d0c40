"""``Task``: the loss that training minimises and the score that reports show."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from fedplus._types import Array, NumpyArray

Outputs = Array
PerSample = Array
"""One number per sample, (B,)."""


class Task(NamedTuple):
    """Loss and score of outputs (B, ...) for labels (B, ...), one number per sample."""

    name: str
    loss: Callable[[Outputs, Array], PerSample]
    score: Callable[[Outputs, Array], PerSample]
    score_name: str
    better: Literal["higher", "lower"]
    """Whether a higher or a lower mean score is better."""
    constant: Callable[[NumpyArray], NumpyArray] | None = None
    """A party's training labels (n, ...) ↦ the best constant outputs (1, ...), as a baseline.

    It uses NumPy because JAX would compile it for each number of samples.
    """


@jax.custom_jvp
def _cross_entropy(logits: Outputs, y: Array) -> PerSample:
    # A product with the one-hot label, because XLA's gather and the scatter in its gradient are slow.
    one_hot = y[..., None] == jnp.arange(logits.shape[-1], dtype=y.dtype)
    return -jnp.sum(jax.nn.log_softmax(logits) * one_hot, axis=-1)


@_cross_entropy.defjvp
def _cross_entropy_jvp(
    primals: tuple[Outputs, Array], tangents: tuple[Outputs, Any]
) -> tuple[PerSample, PerSample]:
    """Differentiate with the gradient softmax − one-hot, which needs fewer operations than JAX's.

    The axis of classes is first, as in the result of the matrix product before it on a CPU.
    """
    logits, y = primals
    by_class = jnp.moveaxis(logits, -1, 0)
    classes = jnp.arange(len(by_class), dtype=y.dtype).reshape(-1, *(1,) * y.ndim)
    weights = jnp.exp(by_class - lax.stop_gradient(jnp.max(by_class, axis=0)))
    slope = weights / jnp.sum(weights, axis=0) - (y == classes)
    return _cross_entropy(logits, y), jnp.sum(jnp.moveaxis(slope, 0, -1) * tangents[0], axis=-1)


def _is_correct(logits: Outputs, y: Array) -> PerSample:
    return (jnp.argmax(logits, axis=-1) == y).astype(logits.dtype)


def _binary_cross_entropy(logits: Outputs, y: Array) -> PerSample:
    return jnp.asarray(optax.sigmoid_binary_cross_entropy(logits[..., 0], y.astype(logits.dtype)))


def _is_correct_binary(logits: Outputs, y: Array) -> PerSample:
    return ((logits[..., 0] > 0) == (y > 0)).astype(logits.dtype)


def _squared_error(outputs: Outputs, y: Array) -> PerSample:
    error = outputs.reshape(outputs.shape[0], -1) - y.reshape(y.shape[0], -1)
    return jnp.mean(jnp.square(error), axis=-1)


def _half_squared_error(outputs: Outputs, y: Array) -> PerSample:
    return 0.5 * _squared_error(outputs, y)


def _most_frequent_class(y: NumpyArray) -> NumpyArray:
    labels, counts = np.unique(y, return_counts=True)
    classes = np.arange(max(int(labels[-1]) + 1, 2))
    return np.asarray(classes == labels[np.argmax(counts)], np.float32)[None]


def _more_frequent_sign(y: NumpyArray) -> NumpyArray:
    return np.full((1, 1), 1.0 if np.mean(np.asarray(y) > 0) > 0.5 else -1.0, np.float32)


def _mean(y: NumpyArray) -> NumpyArray:
    return np.asarray(np.mean(y, axis=0, dtype=float, keepdims=True))


CLASSIFICATION = Task(
    "classification", _cross_entropy, _is_correct, "accuracy", "higher", _most_frequent_class
)
"""One logit per class and labels 0, 1, ...; cross-entropy and accuracy."""
BINARY = Task(
    "binary", _binary_cross_entropy, _is_correct_binary, "accuracy", "higher", _more_frequent_sign
)
"""One logit and labels 0 and 1; logistic loss and accuracy."""
REGRESSION = Task("regression", _half_squared_error, _squared_error, "mse", "lower", _mean)
"""Real outputs; the loss is half the squared error, the score the mean squared error."""
