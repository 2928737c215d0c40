"""A program's own record of its rounds: a row of words a round, whatever the figures are.

One array is written to where there would be one a figure: fewer pieces of a program to compile and to
run.
"""

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, Matrix, settings, static_field
from fedplus.simulation import packing


class _Entry(NamedTuple):
    shape: tuple[int, ...]
    kind: str


@final
@settings
class RoundLog:
    """The figures of some rounds, (rounds, words)."""

    pages: Matrix
    entries: tuple[_Entry, ...] = static_field()
    tree: Any = static_field()

    @classmethod
    def blank(cls, figures: Any, rounds: int) -> "RoundLog":
        """For so many rounds with figures of these shapes."""
        leaves, tree = jax.tree.flatten(figures)
        entries = tuple(_Entry(leaf.shape, leaf.dtype.name) for leaf in leaves)
        wide = sum(packing.word_count(*entry) for entry in entries)
        return cls(jnp.zeros((rounds, wide), jnp.uint32), entries, tree)

    def with_round(self, i: Array, figures: Any) -> "RoundLog":
        """With the figures of its i-th round."""
        row = packing.concatenate_words(jax.tree.leaves(figures))
        return RoundLog(self.pages.at[i].set(row), self.entries, self.tree)

    def read(self, rounds: int) -> Any:
        """The figures of the first so many rounds as NumPy's arrays, (rounds, ...)."""
        written = np.asarray(self.pages)[:rounds]
        parts = np.split(written, packing.split_points(self.entries), axis=1)
        pairs = zip(parts, self.entries, strict=True)
        return jax.tree.unflatten(
            self.tree, [packing.read_words(part, *entry) for part, entry in pairs]
        )
