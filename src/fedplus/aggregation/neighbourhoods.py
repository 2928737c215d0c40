"""Coordinatewise medians of a W of which a few rows change: each remembers who is near its root.

What that is, and how it is used, ``native/following.py`` tells. Without compiled loops, and for few
parties, nothing is remembered.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation import native
from fedplus.aggregation.base import Aggregate, Change
from fedplus.aggregation.shares import Share, share_of
from fedplus.aggregation.soft_median import of_columns

WORTH_LISTING = 4
"""How many times the parties that a list has room for there must be."""


class Neighbourhoods(NamedTuple):
    """What is remembered of each coordinate."""

    edges: Matrix
    """(6, d): an interval, and beyond which points parties do not notice where in it w is."""
    counts: Matrix
    """(3, d): parties above, below, and on the list; −1 of the last: nothing is known."""
    sums: Matrix
    """(3, 2d): numbers of 64 bits in two halves."""
    values: Matrix
    """(d, room): the lists."""


def nothing_known(w: Vector, parties: int) -> Neighbourhoods | tuple[()]:
    """Of models such as w; (): nothing would be remembered."""
    d = w.size
    if (
        not native.usable(native.Shape((parties, d), w.dtype))
        or parties < WORTH_LISTING * native.ROOM
    ):
        return ()
    counts, sums = jnp.full((3, d), -1, jnp.int32), jnp.zeros((3, 2 * d), jnp.int32)
    lists = jnp.zeros((d, native.ROOM), w.dtype)
    return Neighbourhoods(jnp.zeros((6, d), w.dtype), counts, sums, lists)


def follow(
    w_local: Matrix, delta: Array, start: Vector, memory: Neighbourhoods, change: Change
) -> tuple[Aggregate, Neighbourhoods]:
    """The δ-coordinatewise median, from the last one, and what to remember; δ = 0: the median."""
    share = share_of(w_local.shape[1], w_local)
    kept, found = native.followed(w_local, *change, delta, start, memory, share)
    w, left, passes, done = of_columns(share.of_all_at_once(*found), len(w_local))
    return Aggregate(w, passes, left, done), Neighbourhoods(*kept)


def told_all(memory: Neighbourhoods, parties: int) -> Neighbourhoods:
    """The same on all cores, each of which knows its share of the coordinates."""
    d = len(memory.values)
    share = share_of(d, native.Shape((parties, d), memory.values.dtype))
    if share.axis is None:
        return memory
    edges, counts, sums, values = memory
    pairs = sums.reshape(len(sums), -1, 2).swapaxes(0, 1)
    return Neighbourhoods(
        _every(share, edges.T).T,
        _every(share, counts.T).T,
        _every(share, pairs).swapaxes(0, 1).reshape(len(sums), -1),
        _every(share, values),
    )


def _every(share: Share, coordinates: Matrix) -> Matrix:
    mine = jnp.minimum(share.first + jnp.arange(share.size), share.total - 1)
    return share.of_all(coordinates[mine])
