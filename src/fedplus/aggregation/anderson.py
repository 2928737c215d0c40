"""Anderson acceleration of a fixed-point iteration x ← g(x), guarded.

The next point is the combination of the last few images that would cancel the residual g(x) − x if g
were linear. Where that leads astray (the residual doubles) the turn is taken back and the memory
cleared, so that the next turn is a plain x ← g(x).
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, tiny

Found = TypeVar("Found")

MEMORY = 5


class Visit(NamedTuple, Generic[Found]):
    """What is found at x."""

    image: Vector  # g(x)
    left: Array  # size of the step that is left
    done: Array
    found: Found


class _State(NamedTuple, Generic[Found]):
    x: Vector
    visit: Visit[Found]
    moves: Matrix  # last differences of g(x), a row each
    changes: Matrix  # last differences of g(x) − x
    turns: Array


def fixed_point(
    look: Callable[[Vector], Visit[Found]], x: Vector, most: int
) -> tuple[Visit[Found], Array]:
    """Iterate until ``look`` says done, ``most`` times at the most: last visit and turns taken."""
    none = jnp.zeros((min(MEMORY, x.shape[0]), x.shape[0]), x.dtype)

    def turn(s: _State[Found]) -> _State[Found]:
        residual = s.visit.image - s.x
        x = s.visit.image - _mix(s.moves, s.changes, residual)
        visit = look(x)
        known = s.turns > 0  # Before the first turn there is nothing to differ from.
        moves = jnp.roll(s.moves, 1, axis=0).at[0].set(known * (visit.image - s.visit.image))
        changes = jnp.roll(s.changes, 1, axis=0).at[0].set(known * (visit.image - x - residual))
        forward = _State(x, visit, moves, changes, s.turns + 1)
        back = _State(s.x, s.visit, none, none, s.turns + 1)
        astray = jnp.any(s.changes) & ~(visit.left <= 2 * s.visit.left)
        chosen: _State[Found] = jax.tree.map(lambda a, b: jnp.where(astray, a, b), back, forward)
        return chosen

    empty = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(look, x))
    first = _State(x, empty._replace(image=x), none, none, jnp.zeros((), jnp.int32))
    last = lax.while_loop(lambda s: ~s.visit.done & (s.turns < most), turn, first)
    return last.visit, last.turns


def _mix(moves: Matrix, changes: Matrix, residual: Vector) -> Vector:
    gram = changes @ changes.T
    ridge = 1e-6 * jnp.trace(gram) + tiny(gram)  # Rows of zeros drop out.
    eye = jnp.eye(gram.shape[0], dtype=gram.dtype)
    shares: Vector = jnp.linalg.solve(gram + ridge * eye, changes @ residual)
    return shares @ moves
