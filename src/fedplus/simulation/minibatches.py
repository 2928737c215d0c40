"""Which samples a step sees: each epoch goes through all of a party's samples in a new random order."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from fedplus._types import Array, Host
from fedplus.simulation.shuffle import mix_bits, shuffled_position

AT_ONCE = 2**20
"""The most rows that are drawn before a round begins; one draw is cheaper than one at each step."""


def minibatches(
    key: Array, start: Array, size: Array, batch_size: int, most: int | None = None,
    fixed: bool = True,
) -> Any:  # fmt: skip
    """Rows (B,) of each step's minibatch, for each party.

    Where a bound on the steps is given and few rows are to be drawn, all are, before the first step.
    Returns an array (K, E, B) then, if a round is to have a ``fixed`` length; a function of the step's
    number otherwise. ``Work.batches`` takes both.

    Epoch follows epoch without a gap, so every minibatch is full: one that begins with the last samples
    of an order ends with the first of the next. A party smaller than a minibatch has some samples in it
    twice.

    Args:
        key: (K,), random words, one a party and round, uint32.
        start: (K,), the parties' first rows.
        size: (K,), the number of their rows.
        batch_size: B.
        most: E, at least every E_k.
        fixed: Whether parties with fewer steps wait for the others.
    """
    make: Any = Partial  # Untyped in JAX.
    if most is not None and len(key) * most * batch_size <= AT_ONCE:
        each = jnp.arange(most, dtype=jnp.int32)[:, None]
        key, start, size = (part[:, None, None] for part in (key, start, size))
        rows = _rows(batch_size, key, start, size, each)
        return rows if fixed else make(_drawn, rows)
    return make(partial(_rows, batch_size), key, start, size)


def _rows(batch_size: int, key: Array, start: Array, size: Array, step: Array) -> Array:
    position = step * batch_size + jnp.arange(batch_size, dtype=jnp.int32)
    epoch, within = position // size, position % size
    return start + shuffled_position(
        *jnp.broadcast_arrays(within, size, mix_bits(key ^ mix_bits(epoch)))
    )


def _drawn(rows: Array, step: Array) -> Array:
    return rows[step]


def steps_per_epoch(size: Host, batch_size: int) -> Host:
    """(N,): the steps that it takes to see each sample once."""
    return np.ceil(size / batch_size).astype(np.int32)
