"""Arrays of several dtypes packed into one array of 32-bit words, and unpacked again.

One array to write or to exchange costs less than many.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from fedplus._types import Array, NumpyArray, Vector


def to_words(numbers: Array) -> Vector:
    """Return the bits of an array as uint32 words; a number of fewer than 32 bits takes one word."""
    if numbers.dtype.kind == "b":
        return numbers.ravel().astype(jnp.uint32)
    if numbers.dtype.itemsize < 4:
        short = jnp.dtype(f"uint{8 * numbers.dtype.itemsize}")
        return lax.bitcast_convert_type(numbers, short).ravel().astype(jnp.uint32)
    return lax.bitcast_convert_type(numbers, jnp.uint32).ravel()


def word_count(shape: tuple[int, ...], dtype: Any) -> int:
    """Return the number of words of an array of this shape and dtype."""
    words_per_number: int = max(1, np.dtype(dtype).itemsize // 4)
    return math.prod(shape) * words_per_number


def concatenate_words(arrays: Sequence[Array]) -> Vector:
    """Return the words of all arrays, one array after the other."""
    return jnp.concatenate([to_words(numbers) for numbers in arrays])


def split_points(layouts: Iterable[tuple[tuple[int, ...], Any]]) -> NumpyArray:
    """Return where concatenated words are split into arrays of these shapes and dtypes."""
    ends: NumpyArray = np.cumsum([word_count(*layout) for layout in layouts])
    return ends[:-1]


def from_words(words: Vector, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return the array that was packed into these words; for use inside a JAX program."""
    target = jnp.dtype(dtype)
    if target.kind == "b":
        return (words != 0).reshape(shape)
    if target.itemsize < 4:
        words = words.astype(jnp.dtype(f"uint{8 * target.itemsize}"))
    return lax.bitcast_convert_type(words.reshape((*shape, *_word_axis(target))), target)


def words_to_numpy(words: NumpyArray, shape: tuple[int, ...], dtype: Any) -> NumpyArray:
    """Return the arrays that were packed into (..., words), as a NumPy array (..., *shape)."""
    target = np.dtype(dtype)
    numbers: NumpyArray
    if target.kind == "b":
        numbers = words != 0
    elif target.itemsize < 4:
        numbers = words.astype(f"uint{8 * target.itemsize}").view(target)
    else:
        numbers = np.ascontiguousarray(words).view(target)
    return numbers.reshape((*words.shape[:-1], *shape))


def _word_axis(dtype: Any) -> tuple[int, ...]:
    """Return the additional axis for the words of one number, if a number takes several."""
    return () if dtype.itemsize <= 4 else (dtype.itemsize // 4,)
