"""Numbers of several kinds as words of 32 bits, and back: one array to move about rather than many."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from fedplus._types import Array, Host, Vector


def to_words(numbers: Array) -> Vector:
    """Their bits, word after word; a number of fewer than 32 has a word of its own."""
    if numbers.dtype.kind == "b":
        return numbers.ravel().astype(jnp.uint32)
    if numbers.dtype.itemsize < 4:
        short = jnp.dtype(f"uint{8 * numbers.dtype.itemsize}")
        return lax.bitcast_convert_type(numbers, short).ravel().astype(jnp.uint32)
    return lax.bitcast_convert_type(numbers, jnp.uint32).ravel()


def word_count(shape: tuple[int, ...], dtype: Any) -> int:
    """Words that an array of this shape and kind has."""
    each: int = max(1, np.dtype(dtype).itemsize // 4)
    return math.prod(shape) * each


def concatenate_words(arrays: Sequence[Array]) -> Vector:
    """The words of all of them, one array after the other."""
    return jnp.concatenate([to_words(numbers) for numbers in arrays])


def split_points(kinds: Iterable[tuple[tuple[int, ...], Any]]) -> Host:
    """Where, among joined words, those of each array end but for the last, by shapes and kinds."""
    ends: Host = np.cumsum([word_count(*kind) for kind in kinds])
    return ends[:-1]


def from_words(words: Vector, shape: tuple[int, ...], dtype: Any) -> Array:
    """The numbers whose words these are, in a program."""
    kind = jnp.dtype(dtype)
    if kind.kind == "b":
        return (words != 0).reshape(shape)
    if kind.itemsize < 4:
        words = words.astype(jnp.dtype(f"uint{8 * kind.itemsize}"))
    return lax.bitcast_convert_type(words.reshape((*shape, *_each(kind))), kind)


def read_words(words: Host, shape: tuple[int, ...], dtype: Any) -> Host:
    """The numbers whose words these are: (..., words) to (..., *shape), on the host."""
    kind = np.dtype(dtype)
    found: Host
    if kind.kind == "b":
        found = words != 0
    elif kind.itemsize < 4:
        found = words.astype(f"uint{8 * kind.itemsize}").view(kind)
    else:
        found = np.ascontiguousarray(words).view(kind)
    return found.reshape((*words.shape[:-1], *shape))


def _each(kind: Any) -> tuple[int, ...]:
    """The axis of one number's words, where it has several."""
    return () if kind.itemsize <= 4 else (kind.itemsize // 4,)
