"""Aggregates of a W of which a few rows change at a time: what was found before tells most of it.

A δ-geometric median is where the parties' pulls cancel. From one round to the next the pulls of K rows
change, which these rows tell without a look at the others, and w goes to meet the change: the sum of the
new pulls, over the slope Σ_k 1 / max(‖w_k − w‖, δ). Among many parameters the parties' directions are
nearly orthogonal, but for one that they share, in which w has further to go; how much further, the round
before tells. Then one pass over W, which shows that w is right, is often all.

A δ-coordinatewise median is found without even that: see ``native/following.py``, without which nothing
is remembered for it.
"""

from functools import singledispatch
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon, tiny
from fedplus.aggregation import native
from fedplus.aggregation.base import Aggregate, Change
from fedplus.aggregation.minimise import by_blocks, delta_geometric_median, minimise
from fedplus.aggregation.reweighted import Median
from fedplus.aggregation.rows import distances, each_weight
from fedplus.aggregation.shares import share_of
from fedplus.aggregation.soft_median import of_columns
from fedplus.psi import L1, L2, AbstractPsi, Blocks

Shape: Any = jax.ShapeDtypeStruct  # Untyped in JAX.
WORTH_LISTING = 4
"""How many times the parties that a list has room for there must be."""
NOISE = 16
"""Rounding units of ‖w‖ that a difference must have to mean something."""
MOST_YIELDING = 0.9


class Pulled(NamedTuple):
    """What is remembered for a geometric median."""

    ahead: Vector
    """Where the last step would have led."""
    slope: Array
    """Σ_k 1 / max(‖w_k − w‖, δ); 0: not known."""
    along: Vector
    """The direction, of length 1, in which the parties lie apart most."""
    yields: Array
    """The share of the slope that is missing along it."""


class Neighbourhoods(NamedTuple):
    """What is remembered for a δ-coordinatewise median, of each coordinate."""

    edges: Matrix
    counts: Matrix
    sums: Matrix
    values: Matrix


Memory: TypeAlias = Pulled | Neighbourhoods | dict[str, Any] | tuple[()]


@singledispatch
def memory_of(psi: AbstractPsi, w: Vector, parties: int) -> Memory:
    """What is known of a W whose rows are all w; (): nothing would be remembered."""
    return ()


@singledispatch
def follow(
    psi: AbstractPsi, w_local: Matrix, memory: Any, change: Change
) -> tuple[Aggregate, Memory]:
    """The minimiser, and what to remember."""
    return minimise(psi, w_local, None, None), memory


@memory_of.register
def _(psi: L2, w: Vector, parties: int) -> Memory:
    if w.size == 1:
        return ()
    # A buffer each: a program that takes the memory over takes none twice.
    slope, yields = jnp.zeros((), w.dtype), jnp.zeros((), w.dtype)
    return Pulled(jnp.array(w, copy=True), slope, jnp.zeros_like(w), yields)


@follow.register
def _(psi: L2, w_local: Matrix, memory: Any, change: Change) -> tuple[Aggregate, Memory]:
    if memory == ():
        return minimise(psi, w_local, None, None), memory
    delta = jnp.asarray(psi.delta, w_local.dtype)
    move = _move(memory, delta, w_local[change.rows], change.before)
    along = jnp.sum(memory.along * move) * memory.yields / (1 - memory.yields)
    start = memory.ahead + (move + along * memory.along)
    aggregate, found = delta_geometric_median(psi, w_local, each_weight(w_local, None), start)
    return aggregate, _learned(memory, move, found)


@memory_of.register
def _(psi: L1, w: Vector, parties: int) -> Memory:
    d = w.size
    if not native.usable(Shape((parties, d), w.dtype)) or parties < WORTH_LISTING * native.ROOM:
        return ()
    counts, sums = jnp.full((3, d), -1, jnp.int32), jnp.zeros((2, 2 * d), jnp.int32)
    edges = jnp.zeros((7, d), w.dtype).at[-1].set(w)
    return Neighbourhoods(edges, counts, sums, jnp.zeros((d, native.ROOM), w.dtype))


@follow.register
def _(psi: L1, w_local: Matrix, memory: Any, change: Change) -> tuple[Aggregate, Memory]:
    if memory == ():
        return minimise(psi, w_local, None, None), memory
    delta, share = jnp.asarray(psi.delta, w_local.dtype), share_of(w_local.shape[1], w_local)
    kept, found = native.followed(w_local, change.rows, change.before, delta, memory, share)
    w, left, passes, done = of_columns(share.of_all_at_once(*found), len(w_local))
    return Aggregate(w, passes, left, done), Neighbourhoods(*kept)


@memory_of.register
def _(psi: Blocks, w: Vector, parties: int) -> Memory:
    return {key: memory_of(psi.parts[key], part, parties) for key, part in psi.split(w).items()}


@follow.register
def _(psi: Blocks, w_local: Matrix, memory: Any, change: Change) -> tuple[Aggregate, Memory]:
    rows, befores, kept = change.rows, psi.split(change.before), {}

    def solve(pattern: str, block: Matrix) -> Aggregate:
        found, kept[pattern] = follow(
            psi.parts[pattern], block, memory[pattern], Change(rows, befores[pattern])
        )
        return found

    return by_blocks(psi, w_local, solve), kept


def told_all(memory: Any, parties: int) -> Any:
    """The same memory on all cores, each of which knows a share of the coordinates."""
    if isinstance(memory, dict):
        return {key: told_all(part, parties) for key, part in memory.items()}
    if not isinstance(memory, Neighbourhoods):
        return memory
    d = len(memory.values)
    share = share_of(d, Shape((parties, d), memory.values.dtype))
    if share.axis is None:
        return memory
    mine = jnp.minimum(share.first + jnp.arange(share.size), share.total - 1)

    def every(rows: Matrix) -> Matrix:
        return share.of_all(rows[mine])

    edges, counts, sums, values = memory
    pairs = sums.reshape(2, -1, 2).swapaxes(0, 1)
    return Neighbourhoods(
        every(edges.T).T,
        every(counts.T).T,
        every(pairs).swapaxes(0, 1).reshape(2, -1),
        every(values),
    )


def _move(memory: Pulled, delta: Array, now: Matrix, before: Matrix) -> Vector:
    """Where the pulls of the rows that changed lead to, if all directions were alike."""
    models = jnp.concatenate([now, before])
    sign = jnp.where(jnp.arange(len(models)) < len(now), 1, -1)
    q = sign / jnp.maximum(distances(models, memory.ahead), delta)
    pull = jnp.matmul(q, models, precision=lax.Precision.HIGHEST) - jnp.sum(q) * memory.ahead
    known = memory.slope > 0
    return jnp.where(known, pull / jnp.where(known, memory.slope, 1), 0)


def _learned(memory: Pulled, move: Vector, found: Median) -> Pulled:
    """What W did beyond the expected tells in which direction, and by how much, it yields most."""
    beyond = found.ahead - (memory.ahead + move)
    size = jnp.linalg.norm(beyond)
    along = beyond / jnp.maximum(size, tiny(size))
    gone = jnp.sum(along * (found.w - memory.ahead))
    yields = size / jnp.where(gone > 0, gone, jnp.inf)
    told = (memory.slope > 0) & (size > NOISE * epsilon(size) * jnp.linalg.norm(found.w))
    told &= (yields > 0) & (yields < MOST_YIELDING)
    return Pulled(
        found.ahead,
        found.slope,
        jnp.where(told, along, memory.along),
        jnp.where(told, yields, memory.yields),
    )
