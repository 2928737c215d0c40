"""A geometric median of a W of which a few rows change: the pulls of these rows tell where it goes.

w is where the parties' pulls (w_k − w) / max(‖w_k − w‖, δ) cancel. From one time to the next those of K
rows change, which these rows tell without a look at the others, and w goes to meet the change: the sum of
the new pulls, over the slope Σ_k 1 / max(‖w_k − w‖, δ). Among many parameters the parties' directions are
nearly orthogonal, but for one that they share, in which w has further to go; how much further, the time
before tells. Then one pass over W, which shows that w is right, is often all.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon, tiny
from fedplus.aggregation.base import Change
from fedplus.aggregation.reweighted import Median
from fedplus.aggregation.rows import distances, each_weight
from fedplus.aggregation.weiszfeld import weiszfeld

NOISE = 16
"""Rounding units of ‖w‖ that a difference must have to mean something."""
MOST_YIELDING = 0.9


class Pulled(NamedTuple):
    """What is remembered."""

    ahead: Vector
    """Where the last step would have led."""
    slope: Array
    """Σ_k 1 / max(‖w_k − w‖, δ); 0: not known."""
    along: Vector
    """The direction, of length 1, in which the parties lie apart most."""
    yields: Array
    """The share of the slope that is missing along it."""


def nothing_known(w: Vector) -> Pulled:
    """But that w may be near."""
    # A buffer each: a program that takes the memory over takes none twice.
    slope, yields = jnp.zeros((), w.dtype), jnp.zeros((), w.dtype)
    return Pulled(jnp.array(w, copy=True), slope, jnp.zeros_like(w), yields)


def follow(
    w_local: Matrix, delta: Array, memory: Pulled, change: Change
) -> tuple[Median, Pulled]:
    """The δ-geometric median, all weights equal, and what to remember."""
    move = _move(memory, delta, w_local[change.rows], change.before)
    further = jnp.sum(memory.along * move) * memory.yields / (1 - memory.yields)
    start = memory.ahead + (move + further * memory.along)
    found = weiszfeld(w_local, each_weight(w_local, None), delta, start)
    return found, _learned(memory, move, found)


def _move(memory: Pulled, delta: Array, now: Matrix, before: Matrix) -> Vector:
    """Where the pulls of the rows that changed lead to, if all directions were alike."""
    models = jnp.concatenate([now, before])
    sign = jnp.where(jnp.arange(len(models)) < len(now), 1, -1)
    q = sign / jnp.maximum(distances(models, memory.ahead), delta)
    pull = jnp.matmul(q, models, precision=lax.Precision.HIGHEST) - jnp.sum(q) * memory.ahead
    known = memory.slope > 0
    return jnp.where(known, pull / jnp.where(known, memory.slope, 1), 0)


def _learned(memory: Pulled, move: Vector, found: Median) -> Pulled:
    """How w went beyond what was expected tells in which direction, and by how much, W yields most."""
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
