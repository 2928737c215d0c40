"""Single program, multiple data: CPU cores share the passes over a large W.

The simulator makes every CPU core a device, and all cores run the same program. Each core passes over
its share of the rows or columns of W, and all cores receive all results. Without other cores, one core
does everything.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from fedplus._types import Array, Matrix

MIN_SHARED_ENTRIES = 2**20
"""The smallest number of entries of W for which cores share a pass.

With fewer entries, waiting for the other cores costs more time than sharing saves.
"""
MIN_SHARED = 64
"""The smallest number of rows or columns that cores share.

Fewer sums take longer to exchange than to compute.
"""


class _Cores(NamedTuple):
    axis: str
    cores: int


_CORES: ContextVar[_Cores | None] = ContextVar("cores", default=None)


@contextmanager
def split_among(axis: str, count: int) -> Iterator[None]:
    """Share passes among ``count`` cores while a program that all of them run is traced.

    Args:
        axis: Name of the axis of ``shard_map`` on which each core has its number.
        count: Number of cores.
    """
    token = _CORES.set(_Cores(axis, count))
    try:
        yield
    finally:
        _CORES.reset(token)


class Shard(NamedTuple):
    """This core's share of ``total`` rows or columns."""

    total: int
    begin: Array | int
    size: int
    """The largest share of any core; the last core may have less to do."""
    axis: str | None

    def gather(self, values: Array) -> Array:
        """Concatenate (size, ...) of every core to (total, ...)."""
        if self.axis is None:
            return values
        every: Array = lax.all_gather(values, self.axis, tiled=True)
        return every[: self.total]

    def add(self, values: Array) -> Array:
        """Sum over the cores, in the same order on each of them."""
        if self.axis is None:
            return values
        # XLA's own sum takes many times as long.
        first, *others = lax.all_gather(values, self.axis)
        total: Array = sum(others, start=first)
        return total

    def combine(self, values: Sequence[Array], kinds: Sequence[str]) -> tuple[Array, ...]:
        """Gather "columns" and add up "rows", "sum" and "count" over the cores, with few exchanges."""
        if self.axis is None:
            return tuple(values)
        if "columns" not in kinds:
            sizes = np.cumsum([x.size for x in values])[:-1]
            return tuple(jnp.split(self.add(jnp.concatenate(values)), sizes))
        pairs = zip(values, kinds, strict=True)
        return tuple(self.gather(x) if kind == "columns" else self.add(x) for x, kind in pairs)


def shard_of(total: int, entries: int) -> Shard:
    """Return this core's share of ``total`` rows or columns, for a W with this many entries."""
    cores = _CORES.get() if total >= MIN_SHARED and entries >= MIN_SHARED_ENTRIES else None
    if cores is None:
        return Shard(total, 0, total, None)
    size = -(-total // cores.cores)
    return Shard(total, lax.axis_index(cores.axis) * size, size, cores.axis)


def first_core_flags(flags: Array, w_local: Matrix) -> Array:
    """Return the first core's flags on all cores, which must take the same branches."""
    axis = shard_of(len(w_local), w_local.size).axis
    if axis is None:
        return flags
    every: Array = lax.all_gather(flags, axis)
    return every[0]
