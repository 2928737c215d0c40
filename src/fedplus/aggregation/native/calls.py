"""The loops as functions of JAX arrays. Passes over W do a share of the rows, or of the columns."""

from math import inf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation.native.layout import MODELS, NUMBERS, Shape
from fedplus.aggregation.native.place import lies_in
from fedplus.aggregation.native.switch import register, threads_now
from fedplus.aggregation.shares import Share, whole

LEAST = {
    "product": 2**22, "reweigh": 2**21, "look": 2**21, "near_median": 2**18, "medians": 2**19,
    "soft_medians": 2**19,
}  # fmt: skip
"""Entries of W from which on another thread is worth waking."""
ROOM = 64
"""Parties that a coordinate's list has room for."""
FEW = 16
"""Parties whose products with each other are few."""
STEPS = 8
"""Newton's steps that coordinates take together, at most."""
WALK = 3
"""Passes that coordinates near their medians take together, at most."""


def product(w_local: Matrix, p: Vector, share: Share) -> Vector:
    """Σ p_k w_k over the share's rows."""
    total: Vector
    (total,) = _call("product", share, (_of(w_local.shape[1]),), w_local, p)
    return total


def reweigh(
    w_local: Matrix, weights: Vector, delta: Array, w: Vector, share: Share
) -> tuple[Vector, Vector]:
    """Distances r_k from w of the share's rows, else 0, and Σ a_k δ / max(r_k, δ) w_k over these."""
    n, d = w_local.shape
    out = _of(n), _of(d)
    r, total = _call("reweigh", share, out, w_local, weights, delta[None], w)
    return r, total


def near_median(w_local: Matrix, weights: Vector, delta: Array) -> Vector:
    """Near the δ-geometric median of a few parties, by their products."""
    w: Vector
    n, d = w_local.shape
    (w,) = _call("near_median", whole(n), (_of(d),), w_local, weights, delta[None])
    return w


def medians(
    w_local: Matrix, weights: Vector, start: Vector, spacing: Vector, share: Share, steps: int
) -> tuple[Vector, Vector, Vector]:
    """Medians of the share's columns, the passes that each took, and whether they were enough.

    ``steps``: how many passes coordinates take together, before each goes by itself.
    """
    out = _of(share.size), _of(share.size, np.int32), _of(share.size, np.int32)
    w, passes, closed = _call("medians", share, out, w_local, weights, start, spacing, steps=steps)
    return w, passes, closed > 0


def soft_medians(
    w_local: Matrix, weights: Vector, delta: Array, start: Vector, spacing: Vector, share: Share,
    steps: Array | int,
) -> tuple[Vector, Vector, Vector, Vector]:  # fmt: skip
    """δ-medians of the share's columns, Σ a_k clip(w_k − w, −δ, δ) there, passes, whether done.

    ``steps``: how many of Newton's steps coordinates take together, before each goes by itself.
    """
    size = share.size
    out = _of(size), _of(size), _of(size, np.int32), _of(size, np.int32)
    args = w_local, weights, delta[None], start, spacing
    w, pull, passes, done = _call("soft_medians", share, out, *args, steps=steps)
    return w, pull, passes, done > 0


def followed(
    w_local: Matrix, rows: Vector, before: Matrix, delta: Array, start: Vector,
    memory: tuple[Array, ...], share: Share,
) -> tuple[tuple[Array, ...], tuple[Vector, ...]]:  # fmt: skip
    """What is remembered, in place of ``memory``, and what ``soft_medians`` finds."""
    size = share.size
    out = _of(size), _of(size), _of(size, np.int32), _of(size, np.int32)
    kept = tuple(map(_like, memory))
    args = w_local, rows.astype(np.int32), before, delta[None], start, *memory
    found = _call("follow", share, kept + out, *args, kept=5)
    return tuple(found[:4]), (*found[4:7], found[7] > 0)


def set_out(
    w_local: Matrix, rows: Vector, before: Matrix, delta: Array, pulled: tuple[Array, ...],
    at: Vector, memory: tuple[Array, ...],
) -> tuple[tuple[Array, ...], Vector, Matrix, Vector]:  # fmt: skip
    """What is remembered, in place of ``memory``, the way that the change leads, and the first turn.

    ``pulled``: ahead, the slope, along, and how much W yields; a turn is models and numbers.
    """
    ahead, slope, along, yields = pulled
    among = ahead, slope[None], along, yields[None]
    args = w_local, rows.astype(np.int32), before, delta[None], *among, at, *memory
    out = *map(_like, memory), _like(at), Shape((MODELS, at.size), np.float32), _of(NUMBERS)
    *kept, move, models, numbers = _call("set_out", whole(1), out, *args, kept=9)
    return tuple(kept), move, models, numbers


def look(
    w_local: Matrix, entries: Matrix, units: Matrix, before: Vector, models: Matrix,
    numbers: Vector, share: Share,
) -> Matrix:  # fmt: skip
    """Distances of the share's rows, else 0, and then a sum over these: a row of each thread."""
    found: Matrix
    args = w_local, entries, units, before, models, numbers
    out = Shape((_threads("look", share, w_local), sum(w_local.shape)), np.float32)
    (found,) = _call("look", share, (out,), *args)
    return found


def turned(
    found: Matrix, centre: Vector, units: Matrix, state: tuple[Array, ...]
) -> tuple[Array, ...]:
    """The state after a turn, in place of the one before, by what was found."""
    args = found, centre, units, *state
    after: Any = _ffi("take_turn", tuple(map(_like, state)), args, kept=3)
    return tuple(after)


def learned(
    before: Vector, known: Array, w: Vector, ahead: Vector, along: Vector, yields: Array, move: Vector
) -> tuple[Vector, Array]:  # fmt: skip
    """``along`` and ``yields`` anew. ``before`` and ``known``: ``ahead`` and the slope as they were."""
    args = before, known[None], w, ahead, along, yields[None], move
    along, yields, _ = _ffi("learn", tuple(map(_like, args[4:])), args, kept=4)
    return along, yields[0]


def steps_of(near: bool, delta: Any, spacing: Any) -> Any:
    """How many of Newton's steps to take from ``near`` or far; ``spacing``: past one of N parties.

    A window of ±δ with hardly a party in it each coordinate has to look for by itself.
    """
    return STEPS if near else STEPS * (delta > 2 * spacing.mean())


def walk_of(near: bool) -> int:
    """How many passes coordinates take together towards their medians, from ``near`` or far."""
    return WALK if near else 0


def _like(array: Array) -> Any:
    return Shape(array.shape, array.dtype)


def _of(size: int, dtype: Any = np.float32) -> Any:
    return Shape((size,), dtype)


def _call(
    name: str, share: Share, out: tuple[Any, ...], *args: Array, steps: Any = 0, kept: int = 0
) -> Any:  # fmt: skip
    """XLA's call of a loop, in threads where these save more than they cost.

    ``kept``: from which argument on the first results take their places.
    """
    first = jnp.asarray(share.first, jnp.int32)
    last = jnp.minimum(first + share.size, share.total)
    w_local, *others = args
    threads = _threads(name, share, w_local)
    w_local, column = lies_in(w_local)
    numbers = (first, last, threads, column, steps)
    part = jnp.stack([jnp.asarray(x, jnp.int32) for x in numbers])
    loop = name if threads == 1 else f"{name}_in_threads"
    return _ffi(loop, out, (w_local, *others), kept, part)


def _threads(name: str, share: Share, w_local: Matrix) -> int:
    worth_it = share.axis is None and w_local.size >= LEAST.get(name, inf)
    return threads_now() if worth_it else 1


def _ffi(
    name: str, out: tuple[Any, ...], args: tuple[Array, ...], kept: int = 0, *more: Array
) -> Any:
    places = {i: i - kept for i in range(kept, len(args))} if kept else None
    call: Any = jax.ffi.ffi_call(
        register(name), out, vmap_method="sequential", input_output_aliases=places
    )  # fmt: skip
    return call(*args, *more)
