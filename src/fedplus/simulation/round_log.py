"""The log that a compiled program writes of its rounds: one row of 32-bit words per round.

All statistics of a round are packed into one row, whatever their shapes and dtypes: a program with one
array to write compiles and runs faster than one with an array per statistic.
"""

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, Matrix, settings, static_field
from fedplus.simulation import packing


class _Entry(NamedTuple):
    shape: tuple[int, ...]
    dtype: str


@final
@settings
class RoundLog:
    """The packed statistics of some rounds; the inverse of ``with_round`` is ``read``."""

    words: Matrix
    """(rounds, words)."""
    entries: tuple[_Entry, ...] = static_field()
    tree: Any = static_field()

    @classmethod
    def empty(cls, statistics: Any, rounds: int) -> "RoundLog":
        """Return a log of zeros for this many rounds with statistics of these shapes."""
        leaves, tree = jax.tree.flatten(statistics)
        entries = tuple(_Entry(leaf.shape, leaf.dtype.name) for leaf in leaves)
        width = sum(packing.word_count(*entry) for entry in entries)
        return cls(jnp.zeros((rounds, width), jnp.uint32), entries, tree)

    def with_round(self, i: Array, statistics: Any) -> "RoundLog":
        """Return the log with the statistics of its i-th round."""
        row = packing.concatenate_words(jax.tree.leaves(statistics))
        return RoundLog(self.words.at[i].set(row), self.entries, self.tree)

    def read(self, rounds: int) -> Any:
        """Return the statistics of the first ``rounds`` rounds as NumPy arrays (rounds, ...)."""
        rows = np.asarray(self.words)[:rounds]
        parts = np.split(rows, packing.split_points(self.entries), axis=1)
        pairs = zip(parts, self.entries, strict=True)
        return jax.tree.unflatten(
            self.tree, [packing.words_to_numpy(part, *entry) for part, entry in pairs]
        )
