"""A random order of 0, 1, ..., n − 1 that is never written down: each place is computed by itself.

Parties may hold ten samples or a million. A shuffle that sorts would pad them all to the largest; this
one costs the same integer operations a place, whatever n is, and n may differ from place to place.
"""

from typing import Any

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array

ODD = tuple(pow(0x9E3779B1, t, 2**32) for t in range(1, 33))
"""One a turn. 32 turns leave no order of a few and no place of a million measurably likelier."""


def shuffled_position(i: Array, n: Array, key: Array) -> Array:
    """Where ``i`` goes in the order of 0, ..., ``n`` − 1 that ``key`` names; all three broadcast.

    In each turn a random centre pairs every x with centre − x (mod n), and a bit that both partners
    compute alike decides whether they swap: a bijection for any n, without a table, a sort or a loop.

    Args:
        i: From 0 to n − 1, int32.
        n: At least 1 and at most 2²⁴, int32.
        key: A word of random bits, uint32.

    Reference: Hoang, Morris, Rogaway, "An enciphering scheme based on a card shuffle", 2012.
    """
    x, n = jnp.asarray(i, jnp.uint32), jnp.asarray(n, jnp.uint32)
    key, unit = mix_bits(key), n.astype(jnp.float32) * 2.0**-24
    for odd in ODD:
        word = key * jnp.uint32(odd)
        word = (word ^ (word >> 15)) * jnp.uint32(0x2C1B3C6D)
        word = word ^ (word >> 13)
        centre = jnp.minimum(((word >> 8).astype(jnp.float32) * unit).astype(jnp.uint32), n - 1)
        partner = centre + n - x
        partner = jnp.where(partner >= n, partner - n, partner)
        coin = (jnp.maximum(x, partner) ^ word) * jnp.uint32(0x85EBCA6B)
        coin = (coin ^ (coin >> 15)) * jnp.uint32(0xC2B2AE35)
        x = jnp.where(coin >> 31 == 1, partner, x)
    # A turn uses x three times. Fused into what reads the places, JAX 0.11 would write each turn out as
    # often as the next one uses it, and compile for hours.
    barrier: Any = lax.optimization_barrier  # Untyped in JAX.
    places: Array = barrier(x.astype(jnp.int32))
    return places


def mix_bits(word: Array) -> Array:
    """A word whose every bit depends on all bits of the given one (the finaliser of MurmurHash3)."""
    word = jnp.asarray(word, jnp.uint32)
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
