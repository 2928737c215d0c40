"""Samples of many parties in one array, and how they reach the device."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from fedplus._types import Host

Pair = tuple[npt.ArrayLike, npt.ArrayLike]
ALIGNMENT = 64


class Split(NamedTuple):
    """Samples of all parties, one party's after the other's: no padding, however uneven they are.

    Party k holds rows ``start[k] : start[k] + size[k]``.
    """

    x: Host
    """(n, ...): inputs."""
    y: Host
    """(n, ...): labels."""
    start: Host
    """(N,)"""
    size: Host
    """(N,)"""

    @classmethod
    def of(cls, parties: Sequence[Pair]) -> "Split":
        """Join the parties' (x, y)."""
        xs = [np.asarray(x) for x, _ in parties]
        ys = [np.asarray(y) for _, y in parties]
        return cls(_joined(xs), _joined(ys), *_places([len(x) for x in xs]))

    @classmethod
    def taken(cls, x: Host, y: Host, rows: Sequence[Host]) -> "Split":
        """Each party's rows of one data set, gathered once."""
        every = np.concatenate(rows)
        return cls(_taken(x, every), _taken(y, every), *_places([len(r) for r in rows]))

    def party(self, k: int) -> tuple[Host, Host]:
        """One party's inputs and labels."""
        rows = slice(int(self.start[k]), int(self.start[k]) + int(self.size[k]))
        return self.x[rows], self.y[rows]

    def first(self, parties: int) -> "Split":
        """Those of the first so many parties."""
        return Split.of([self.party(k) for k in range(parties)])

    def owner(self) -> Host:
        """(n,): which party holds each sample."""
        return np.repeat(np.arange(len(self.size)), self.size)


def put_on_device(array: Host) -> jax.Array:
    """For JAX to compute with; on a CPU without a copy where the memory allows it.

    Always committed to the device, or never: of two runs on data of the same shape the second would
    else compile everything anew.
    """
    if jax.default_backend() != "cpu" or array.size == 0:
        return jnp.asarray(array)
    kind = np.dtype(jax.dtypes.canonicalize_dtype(array.dtype))
    flags = array.flags
    aligned = flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0
    if not (aligned and flags.writeable and kind == array.dtype):
        copy = _empty(array.shape, kind)
        copy[...] = array
        array = copy
    return jnp.from_dlpack(array)


def _places(sizes: Sequence[int]) -> tuple[Host, Host]:
    size = np.array(sizes, dtype=np.int32)
    start = np.concatenate([[0], np.cumsum(size[:-1], dtype=np.int64)]).astype(np.int32)
    return start, size


def _joined(arrays: Sequence[Host]) -> Host:
    kind = _computed_in(np.result_type(*arrays))
    whole = _empty((sum(map(len, arrays)), *arrays[0].shape[1:]), kind)
    return np.concatenate(arrays, out=whole, casting="same_kind")


def _taken(array: Host, rows: Host) -> Host:
    whole = _empty((len(rows), *array.shape[1:]), _computed_in(array.dtype))
    if whole.dtype == array.dtype:
        return np.take(array, rows, axis=0, out=whole, mode="clip")  # "raise" would buffer.
    whole[...] = array[rows]
    return whole


def _computed_in(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The precision that JAX computes in: float32 and int32, or 64 bits under x64."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.int32 if kind.kind == "b" else kind))


def _empty(shape: tuple[int, ...], kind: np.dtype[Any]) -> Host:
    """It begins at a multiple of 64 bytes, so that JAX can use it in place on a CPU."""
    count = math.prod(shape)
    memory = np.empty(count * kind.itemsize + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    return memory[first : first + count * kind.itemsize].view(kind).reshape(shape)
