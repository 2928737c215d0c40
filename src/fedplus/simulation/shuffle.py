"""A random permutation of 0, 1, ..., n − 1 that is never stored: each position is computed by itself.

Parties may hold ten samples or a million. A shuffle that sorts would pad them all to the largest. Here
the cost of a position does not depend on n, and n may differ from position to position.
"""

from typing import Any

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array

ROUND_MULTIPLIERS = tuple(pow(0x9E3779B1, t, 2**32) for t in range(1, 33))
"""One odd number per swap round. With 32 rounds we measure no deviation from uniform: neither of the
permutations of a few items nor of the position of one item among a million."""


def shuffled_position(i: Array, n: Array, key: Array) -> Array:
    """Return the position of ``i`` in the permutation of 0, ..., ``n`` − 1 that belongs to ``key``.

    All three arguments broadcast. In each swap round a random centre pairs every x with centre − x
    (mod n), and a bit that is the same for both partners decides whether they swap: a bijection for any
    n, without a table, a sort or a loop.

    Args:
        i: From 0 to n − 1, int32.
        n: At least 1 and at most 2²⁴, int32.
        key: A word of random bits, uint32.

    Reference: Hoang, Morris, Rogaway, "An enciphering scheme based on a card shuffle", 2012.
    """
    x, n = jnp.asarray(i, jnp.uint32), jnp.asarray(n, jnp.uint32)
    key, unit = mix_bits(key), n.astype(jnp.float32) * 2.0**-24
    for multiplier in ROUND_MULTIPLIERS:
        word = key * jnp.uint32(multiplier)
        word = (word ^ (word >> 15)) * jnp.uint32(0x2C1B3C6D)
        word = word ^ (word >> 13)
        centre = jnp.minimum(((word >> 8).astype(jnp.float32) * unit).astype(jnp.uint32), n - 1)
        partner = centre + n - x
        partner = jnp.where(partner >= n, partner - n, partner)
        coin = (jnp.maximum(x, partner) ^ word) * jnp.uint32(0x85EBCA6B)
        coin = (coin ^ (coin >> 15)) * jnp.uint32(0xC2B2AE35)
        x = jnp.where(coin >> 31 == 1, partner, x)
    # Each round uses x three times. Without the barrier JAX 0.11 fuses this code into its consumers,
    # duplicates every round for each use in the next one, and compiles for hours.
    barrier: Any = lax.optimization_barrier  # Untyped in JAX.
    positions: Array = barrier(x.astype(jnp.int32))
    return positions


def mix_bits(word: Array) -> Array:
    """Return a word whose every bit depends on all bits of ``word`` (MurmurHash3's finaliser)."""
    word = jnp.asarray(word, jnp.uint32)
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
