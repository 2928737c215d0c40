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
    leap: Array  # whether the image is not g(x) but a point further on, to begin anew from
    found: Found


class _State(NamedTuple, Generic[Found]):
    x: Vector
    visit: Visit[Found]
    moves: Matrix  # last differences of g(x), a row each, in no order
    changes: Matrix  # last differences of g(x) − x
    known: Array  # how many of the last rows count
    slow: Array  # whether the last turn took less than half of what was left
    turns: Array


def fixed_point(
    look: Callable[[Vector, Array], Visit[Found]], x: Vector, most: int, memory: int, done: Array
) -> tuple[Vector, Visit[Found], Array]:
    """Iterate until ``look(x, slow)`` says done, ``most`` times at the most; not at all if ``done``.

    Returns:
        The last x, its visit, and the turns taken.
    """

    def turn(s: _State[Found]) -> _State[Found]:
        residual = s.visit.image - s.x
        ages = (s.turns - 1 - jnp.arange(memory)) % memory
        shares = _shares(s.changes, residual, ages < s.known)
        x = s.visit.image - shares @ s.moves
        visit = look(x, s.slow)
        moves = s.moves.at[s.turns % memory].set(visit.image - s.visit.image)
        changes = s.changes.at[s.turns % memory].set(visit.image - x - residual)
        astray = (s.known > 0) & ~(visit.left <= 2 * s.visit.left)
        slow = visit.left > 0.5 * s.visit.left
        x, visit = jax.tree.map(lambda a, b: jnp.where(astray, a, b), (s.x, s.visit), (x, visit))
        known = jnp.where(visit.leap, -1, jnp.where(astray, 0, s.known + 1))
        return _State(x, visit, moves, changes, known, slow, s.turns + 1)

    no, zero = jnp.array(False), jnp.zeros((), jnp.int32)
    empty = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(look, x, no))
    empty = empty._replace(image=x, left=jnp.full_like(empty.left, jnp.inf), done=done)

    def unfinished(visit: Visit[Found], turns: Array) -> Array:
        return ~visit.done & (turns < most)

    def all_turns(s: tuple[Vector, Visit[Found], Array]) -> tuple[Vector, Visit[Found], Array]:
        x, visit, turns = s
        none = jnp.zeros((memory, x.shape[0]), x.dtype)
        # The first turn only looks: there is nothing yet to differ from.
        first = _State(x, visit, none, none, zero - 1, no, turns)
        last = lax.while_loop(lambda s: unfinished(s.visit, s.turns), turn, first)
        return last.x, last.visit, last.turns

    # Once or not at all: what the turns remember need not be there if there are none.
    last: tuple[Vector, Visit[Found], Array] = lax.while_loop(
        lambda s: unfinished(*s[1:]), all_turns, (x, empty, zero)
    )
    return last


def _shares(changes: Matrix, residual: Vector, known: Array) -> Vector:
    gram = jnp.where(known[:, None] & known, changes @ changes.T, 0)
    ridge = 1e-6 * jnp.trace(gram) + tiny(gram)
    eye = jnp.eye(gram.shape[0], dtype=gram.dtype)
    shares: Vector = jnp.linalg.solve(gram + ridge * eye, jnp.where(known, changes @ residual, 0))
    return shares
