"""``Backoff``: how small the steps of a party must be that diverged before, from round to round.

A party whose steps diverge repeats them with smaller ones in the same round, and it begins the next
rounds with the step sizes that worked. After ``GOOD_ROUNDS`` rounds without divergence, the party
tries larger steps again. These are judged more strictly: they may not raise the loss at all beyond
chance, and only after another ``GOOD_ROUNDS`` rounds they count as safe.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedplus._types import Array

RETRIES = 3
"""How often the local steps of a party that diverged are repeated in a round."""
RETRY_SCALE = 0.25
"""The factor of the step sizes from one level to the next."""
GOOD_ROUNDS = 10
"""The rounds without divergence after which larger steps are tried, and after which they are safe."""


class Backoff(NamedTuple):
    """The step sizes with which parties begin a round, and whether larger ones diverged before."""

    safe_level: Array
    """The step sizes of level ℓ are multiplied by ``RETRY_SCALE``^ℓ; this level worked last."""
    good_rounds: Array
    """The number of rounds since the last divergence or change of the level; 0 at level 0."""

    @classmethod
    def none(cls, parties: int) -> "Backoff":
        """Return the values before the first round, one entry per party."""
        return cls(jnp.zeros(parties, jnp.int8), jnp.zeros(parties, jnp.int8))

    def of(self, parties: Array) -> "Backoff":
        """Return the entries of these parties."""
        return Backoff(*(values[parties] for values in self))

    def with_rows(self, parties: Array, new: "Backoff") -> "Backoff":
        """Return the same with new entries for these parties."""
        return Backoff(*(a.at[parties].set(b) for a, b in zip(self, new, strict=True)))

    def first_level(self) -> Array:
        """Return the level of the first attempt in the next round."""
        return self.safe_level - (self.good_rounds >= GOOD_ROUNDS)

    def after_round(self, failures: Array) -> "Backoff":
        """Return the values after a round.

        Args:
            failures: How often the steps of each party diverged in the round.
        """
        last_level = jnp.minimum(self.first_level() + failures, RETRIES)
        good_rounds = jnp.where(self.safe_level > 0, self.good_rounds + 1, 0)
        is_safe = good_rounds >= 2 * GOOD_ROUNDS
        has_failed = failures > 0
        level = jnp.where(has_failed, last_level, self.safe_level - is_safe)
        good_rounds = jnp.where(has_failed | is_safe, 0, good_rounds)
        return Backoff(level.astype(jnp.int8), good_rounds.astype(jnp.int8))
