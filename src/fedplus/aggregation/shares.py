"""Passes over a large W that several cores share, in a program that every one of them runs.

A core passes over its share of the rows, or of the columns, and all cores get what all of them found.
A core that goes another way than the others would leave them waiting, and a sum that rounds otherwise
is enough for that: so whether there is another pass is ``agreed``, or told by a loop, which finds the
same on all cores. Outside of such a program, and where W is small, a core does everything.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector

CACHED = 2**17
"""Entries that stay in a core's cache."""
LEAST = 2**20
"""Entries of W from which on a shared pass saves more than the cores' waiting for each other costs."""


class _Cores(NamedTuple):
    axis: str
    number: int


_CORES: ContextVar[_Cores | None] = ContextVar("cores", default=None)


@contextmanager
def sharing(axis: str, count: int) -> Iterator[None]:
    """While a program is traced that ``count`` cores run, each with its number on this axis."""
    token = _CORES.set(_Cores(axis, count))
    try:
        yield
    finally:
        _CORES.reset(token)


class Share(NamedTuple):
    """Of ``total`` things in a row, those that this core has to do, as far as there are any."""

    total: int
    first: Array | int
    size: int
    """As many as any core has."""
    axis: str | None

    def of_all(self, found: Array) -> Array:
        """(size, ...) of every core, one after the other: (total, ...)."""
        if self.axis is None:
            return found
        every: Array = lax.all_gather(found, self.axis, tiled=True)
        return every[: self.total]

    def of_all_at_once(self, *found: Vector) -> tuple[Vector, ...]:
        """Several vectors of one size, told to each other once; as numbers of the first one's kind."""
        if self.axis is None:
            return found
        mine = jnp.stack([vector.astype(found[0].dtype) for vector in found])
        every = lax.all_gather(mine, self.axis)
        return tuple(every[:, i].ravel()[: self.total] for i in range(len(found)))

    def added(self, found: Array) -> Array:
        """The sum over the cores."""
        if self.axis is None:
            return found
        first, *others = lax.all_gather(found, self.axis)  # XLA's own sum takes many times as long.
        total: Array = sum(others, start=first)
        return total


def whole(total: int) -> Share:
    """All of so many things, for this core by itself."""
    return Share(total, 0, total, None)


def share_of(total: int, w_local: Matrix) -> Share:
    """This core's share of so many things; everything, where nobody else is there."""
    cores = _cores_on(w_local)
    if cores is None:
        return whole(total)
    size = -(-total // cores.number)
    return Share(total, lax.axis_index(cores.axis) * size, size, cores.axis)


def agreed(found: Array, w_local: Matrix) -> Array:
    """What the first core found, on all cores that share passes over this W."""
    cores = _cores_on(w_local)
    if cores is None:
        return found
    every: Array = lax.all_gather(found, cores.axis)
    return every[0]


def cores_on(w_local: Matrix) -> int:
    """How many share a pass over this W."""
    cores = _cores_on(w_local)
    return 1 if cores is None else cores.number


def _cores_on(w_local: Matrix) -> _Cores | None:
    return None if w_local.size < LEAST else _CORES.get()
