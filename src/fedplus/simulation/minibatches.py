"""Which samples a step sees: each epoch goes through all of a party's samples in a new random order."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from fedplus._types import Array
from fedplus.data.federation import Host
from fedplus.simulation.shuffle import mixed, place


def minibatches(key: Array, start: Array, size: Array, batch_size: int) -> Any:
    """A function from a step's number to the rows (B,) of its minibatch, for each party.

    Epoch follows epoch without a gap, so every minibatch is full: one that begins with the last samples
    of an order ends with the first of the next. A party smaller than a minibatch has some samples in it
    twice.

    Args:
        key: (K,), random words, one a party and round, uint32.
        start: (K,), the parties' first rows.
        size: (K,), the number of their rows.
        batch_size: B.
    """
    make: Any = Partial  # Untyped in JAX.
    return make(partial(_rows, batch_size), key, start, size)


def _rows(batch_size: int, key: Array, start: Array, size: Array, step: Array) -> Array:
    position = step * batch_size + jnp.arange(batch_size, dtype=jnp.int32)
    epoch, within = position // size, position % size
    key = mixed(key ^ mixed(epoch))
    return start + place(within, jnp.broadcast_to(size, within.shape), key)


def steps_an_epoch(size: Host, batch_size: int) -> Host:
    """(N,): the steps that it takes to see each sample once."""
    return np.ceil(size / batch_size).astype(np.int32)
