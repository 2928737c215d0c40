"""Minibatches: each epoch goes through all of a party's samples in a new random order."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from fedplus._types import Array, NumpyArray
from fedplus.simulation.shuffle import mix_bits, shuffled_position

MAX_ROWS_AT_ONCE = 2**20
"""The most rows that are drawn before a round begins; one draw is cheaper than one at each step."""


def minibatches(
    word: Array, start: Array, size: Array, batch_size: int, max_steps: int | None = None,
    as_array: bool = True,
) -> Any:  # fmt: skip
    """Return the rows (B,) of each step's minibatch, for each party.

    Epochs follow each other without a gap, so every minibatch is full: one that begins with the last
    samples of an epoch ends with the first of the next. A party with fewer than B samples has some
    samples twice in a minibatch.

    Args:
        word: (K,), one random uint32 number per party and round.
        start: (K,), the first row of each party.
        size: (K,), the number of rows of each party.
        batch_size: B.
        max_steps: E, at least every E_k. If it is given and K·E·B is not too large, all rows are drawn
            at once.
        as_array: Whether rows drawn at once are returned as an array, so that parties with fewer steps
            wait for the others, or as a function.

    Returns:
        An array (K, E, B), or a ``Partial`` that maps a step's number to its rows. ``Work.batches``
        takes both.
    """
    make_partial: Any = Partial  # Untyped in JAX.
    if max_steps is not None and len(word) * max_steps * batch_size <= MAX_ROWS_AT_ONCE:
        steps = jnp.arange(max_steps, dtype=jnp.int32)[:, None]
        word, start, size = (part[:, None, None] for part in (word, start, size))
        rows = _draw_rows(batch_size, word, start, size, steps)
        return rows if as_array else make_partial(_rows_of_step, rows)
    return make_partial(partial(_draw_rows, batch_size), word, start, size)


def _draw_rows(batch_size: int, word: Array, start: Array, size: Array, step: Array) -> Array:
    position = step * batch_size + jnp.arange(batch_size, dtype=jnp.int32)
    epoch, within = position // size, position % size
    return start + shuffled_position(
        *jnp.broadcast_arrays(within, size, mix_bits(word ^ mix_bits(epoch)))
    )


def _rows_of_step(rows: Array, step: Array) -> Array:
    return rows[step]


def steps_per_epoch(size: NumpyArray, batch_size: int) -> NumpyArray:
    """Return the number of steps in which each party sees each of its samples once, (N,)."""
    return np.ceil(size / batch_size).astype(np.int32)
