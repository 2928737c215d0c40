"""The ordinary turns of a geometric median that follows, mostly with a coarse W, of a byte an entry.

At one point nearby the parties' pulls (w_k − w) / max(‖w_k − w‖, δ) are known, and kept up to date
while rows change. What they are at w differs by little, and for that little the rows need not be known
well: a pass over bytes, a quarter of W, tells it to the last digit. How far w may be from that point is
told by a bound on what rounding to bytes adds up to; beyond, a pass over W itself makes w the point.
The loops are in ``native/coarse.py`` and ``native/turns.py``.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation import native
from fedplus.aggregation.reweighted import Median
from fedplus.aggregation.shares import share_of


class Coarse(NamedTuple):
    """What is remembered."""

    told: Vector
    """(3,): what is known, what rounding may have added to the pull, and whether the point is far."""
    at: Vector
    """A point,"""
    r: Vector
    """(N,): the parties' distances from it,"""
    pull: Vector
    """and the sum of their pulls there."""
    centre: Vector
    """Where bytes are 0."""
    entries: Matrix
    """(N, d) bytes: w_k less the centre,"""
    units: Matrix
    """(2, N): in these units, and how far off that is, ‖·‖₂."""


def nothing_known(w: Vector, parties: int) -> Coarse | tuple[()]:
    """Of models such as w; (): without compiled loops nothing is remembered."""
    shape = parties, w.size
    if not native.usable(native.Shape(shape, w.dtype)):
        return ()
    told, r, units = (jnp.zeros(size, w.dtype) for size in (native.TOLD, parties, (2, parties)))
    at, pull, centre = (jnp.zeros_like(w) for _ in range(3))
    return Coarse(told, at, r, pull, centre, jnp.zeros(shape, jnp.int8), units)


class _State(NamedTuple):
    told: Vector
    at: Vector
    r: Vector
    pull: Vector
    models: Matrix
    numbers: Vector


def near(
    w_local: Matrix, memory: Coarse, models: Matrix, numbers: Vector
) -> tuple[Median, Vector, Coarse]:
    """Where turns from this first one ended, where others may go on from, and what to remember."""
    share = share_of(len(w_local), w_local)
    told, at, r, pull, centre, entries, units = memory

    def turn(s: _State) -> _State:
        found = native.look(w_local, entries, units, s.r, s.models, s.numbers, share)
        every = found if share.axis is None else lax.all_gather(found, share.axis, tiled=True)
        return _State(*native.turned(every, centre, units, s))

    def unfinished(s: _State) -> Array:
        return native.Turn.of(s.numbers).ended == 0

    first = _State(told, at, r, pull, models, numbers)
    told, at, r, pull, models, numbers = lax.while_loop(unfinished, turn, first)
    w, image, _, image_before, _ = models
    last = native.Turn.of(numbers)
    onwards = jnp.where(last.left < last.left_before, image, image_before)
    count, converged = last.turns.astype(jnp.int32), last.converged > 0
    median = Median(w, last.left, last.slope * last.left, count, converged, image, last.slope)
    return median, onwards, Coarse(told, at, r, pull, centre, entries, units)
