"""A geometric median of a W of which a few rows change: the pulls of these rows tell where it goes.

w is where the parties' pulls (w_k − w) / max(‖w_k − w‖, δ) cancel. From one time to the next those of
K rows change, which these rows tell without a look at the others, and w goes to meet the change: by the
sum of the new pulls over the slope Σ_k 1 / max(‖w_k − w‖, δ). Among many parameters the parties'
directions are nearly orthogonal, but for one that they share, in which w has further to go; how much
further, the time before tells. Then one pass over W, which shows that w is right, is often all.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon, tiny
from fedplus.aggregation import native
from fedplus.aggregation.base import Change
from fedplus.aggregation.coarse import Coarse, near
from fedplus.aggregation.coarse import nothing_known as nothing_known_coarsely
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
    coarse: Coarse | tuple[()]
    """W coarse; (): without compiled loops."""


def nothing_known(w: Vector, parties: int) -> Pulled | tuple[()]:
    """Of so many models such as w; (): nothing would be remembered."""
    if w.size == 1:
        return ()
    # A buffer each: a program that takes the memory over takes none twice.
    slope, yields = jnp.zeros((), w.dtype), jnp.zeros((), w.dtype)
    coarse = nothing_known_coarsely(w, parties)
    return Pulled(jnp.zeros_like(w), slope, jnp.zeros_like(w), yields, coarse)


def follow(
    w_local: Matrix, delta: Array, start: Vector, memory: Pulled, change: Change
) -> tuple[Median, Pulled]:
    """The δ-geometric median, from the last one, and what to remember."""
    memory = memory._replace(ahead=jnp.where(memory.slope > 0, memory.ahead, start))
    weights = each_weight(w_local, None)
    if not isinstance(memory.coarse, Coarse):
        move, there = expected(memory, _change_of_pulls(w_local, delta, memory.ahead, change))
        found = weiszfeld(w_local, weights, delta, there)
        return found, learned(memory, move, found)
    told, at, *others = memory.coarse
    pulled = memory[:4]
    # Cores that share the passes over W must go the same way. What they know is the same on all of
    # them, to the bit, since loops made it of what all were told; and so is what loops make of it here.
    (told, *others), move, *turn = native.set_out(
        w_local, *change, delta, pulled, at, (told, *others)
    )
    *begun, coarse = near(w_local, Coarse(told, at, *others), *turn)
    found = weiszfeld(w_local, weights, delta, memory.ahead, begun)
    known = native.learned(
        memory.ahead, memory.slope, found.w, found.ahead, memory.along, memory.yields, move
    )
    return found, Pulled(found.ahead, found.slope, *known, coarse)


def _change_of_pulls(w_local: Matrix, delta: Array, w: Vector, change: Change) -> Vector:
    models = jnp.concatenate([w_local[change.rows], change.before])
    sign = jnp.where(jnp.arange(len(models)) < len(change.rows), 1, -1)
    q = sign / jnp.maximum(distances(models, w), delta)
    return jnp.matmul(q, models, precision=lax.Precision.HIGHEST) - jnp.sum(q) * w


def expected(memory: Pulled, pull: Vector) -> tuple[Vector, Vector]:
    """How far a change of the pulls leads if all directions were alike, and to where they lead."""
    ahead, slope, along, yields, _ = memory
    move = pull * jnp.where(slope > 0, 1 / jnp.maximum(slope, tiny(pull)), 0)
    further = jnp.sum(along * move) * yields / (1 - yields)
    return move, ahead + (move + further * along)


def learned(memory: Pulled, move: Vector, found: Median) -> Pulled:
    """How w went beyond what was expected tells in which direction, and by how much, W yields most."""
    beyond = found.ahead - (memory.ahead + move)
    size = jnp.linalg.norm(beyond)
    along = beyond / jnp.maximum(size, tiny(beyond))
    gone = jnp.sum(along * (found.w - memory.ahead))
    yields = size / jnp.maximum(gone, tiny(beyond))
    told = (memory.slope > 0) & (size > NOISE * epsilon(beyond) * jnp.linalg.norm(found.w))
    told &= yields < MOST_YIELDING
    return Pulled(
        found.ahead,
        found.slope,
        jnp.where(told, along, memory.along),
        jnp.where(told, yields, memory.yields),
        memory.coarse,
    )
