"""``Split``: the samples of all parties in one array, and their transfer to the device."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from fedplus._types import NumpyArray

Pair = tuple[npt.ArrayLike, npt.ArrayLike]
ALIGNMENT = 64


class Split(NamedTuple):
    """Samples of all parties, concatenated without padding.

    Party k has the rows ``start[k] : start[k] + size[k]``.
    """

    x: NumpyArray
    """Inputs (n, ...)."""
    y: NumpyArray
    """Labels (n, ...)."""
    start: NumpyArray
    """First row of each party, (N,)."""
    size: NumpyArray
    """Number of samples of each party, (N,)."""

    @classmethod
    def from_parties(cls, parties: Sequence[Pair]) -> "Split":
        """Concatenate one pair (x, y) per party."""
        xs = [np.asarray(x) for x, _ in parties]
        ys = [np.asarray(y) for _, y in parties]
        return cls(_concatenate(xs), _concatenate(ys), *_offsets([len(x) for x in xs]))

    @classmethod
    def from_rows(cls, x: NumpyArray, y: NumpyArray, rows: Sequence[NumpyArray]) -> "Split":
        """Gather each party's rows of one data set."""
        joined = np.concatenate(rows)
        return cls(_take(x, joined), _take(y, joined), *_offsets([len(r) for r in rows]))

    def party(self, k: int) -> tuple[NumpyArray, NumpyArray]:
        """Return the inputs and labels of party k."""
        rows = slice(int(self.start[k]), int(self.start[k]) + int(self.size[k]))
        return self.x[rows], self.y[rows]

    def select(self, parties: Sequence[int]) -> "Split":
        """Return the split of these parties, by index."""
        return Split.from_parties([self.party(k) for k in parties])

    def party_of_sample(self) -> NumpyArray:
        """Return the index of the party of each sample, (n,)."""
        return np.repeat(np.arange(len(self.size)), self.size)


def put_on_device(array: NumpyArray) -> jax.Array:
    """Return a JAX array; on a CPU it shares the memory if alignment and type allow it.

    On a CPU the result is committed to the device with and without a copy. Otherwise a second run on
    data of the same shape could compile everything again.
    """
    if jax.default_backend() != "cpu" or array.size == 0:
        return jnp.asarray(array)
    kind = np.dtype(jax.dtypes.canonicalize_dtype(array.dtype))
    flags = array.flags
    is_aligned = flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0
    if not (is_aligned and flags.writeable and kind == array.dtype):
        copy = _empty_aligned(array.shape, kind)
        copy[...] = array
        array = copy
    return jnp.from_dlpack(array)


def _offsets(sizes: Sequence[int]) -> tuple[NumpyArray, NumpyArray]:
    size = np.array(sizes, dtype=np.int32)
    start = np.concatenate([[0], np.cumsum(size[:-1], dtype=np.int64)]).astype(np.int32)
    return start, size


def _concatenate(arrays: Sequence[NumpyArray]) -> NumpyArray:
    kind = _jax_dtype(np.result_type(*arrays))
    joined = _empty_aligned((sum(map(len, arrays)), *arrays[0].shape[1:]), kind)
    return np.concatenate(arrays, out=joined, casting="same_kind")


def _take(array: NumpyArray, rows: NumpyArray) -> NumpyArray:
    taken = _empty_aligned((len(rows), *array.shape[1:]), _jax_dtype(array.dtype))
    if taken.dtype == array.dtype:
        return np.take(array, rows, axis=0, out=taken, mode="clip")  # "raise" would buffer.
    taken[...] = array[rows]
    return taken


def _jax_dtype(kind: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that JAX computes in: float32 or int32, or 64 bits if x64 is enabled."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.int32 if kind.kind == "b" else kind))


def _empty_aligned(shape: tuple[int, ...], kind: np.dtype[Any]) -> NumpyArray:
    """Return an empty array aligned to 64 bytes, so that JAX can share its memory on a CPU."""
    count = math.prod(shape)
    memory = np.empty(count * kind.itemsize + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    return memory[first : first + count * kind.itemsize].view(kind).reshape(shape)
