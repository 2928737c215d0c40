"""A random order of 0, 1, ..., n − 1 that is never written down: each place is computed by itself.

Parties may hold ten samples or a million. A shuffle that sorts would pad them all to the largest; this
one costs the same few integer operations a place, whatever n is, and n may differ from place to place.
"""

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array

ODD = tuple(pow(0x9E3779B1, t, 2**32) for t in range(1, 9))
"""One a turn. Eight turns leave no order of a few samples measurably likelier than another."""


def place(i: Array, n: Array, key: Array) -> Array:
    r"""Where ``i`` goes in the order of 0, ..., ``n`` − 1 that ``key`` names; all three broadcast.

    Multiplying by an odd number, adding, and folding the upper half of the bits into the lower one are
    bijections of the numbers below a power of two. A few of them in turn, with numbers taken from the
    key, scatter those below 2^⌈log₂ n⌉; one that lands at n or above goes on until it is below.

    Args:
        i: From 0 to n − 1, int32.
        n: At least 1, int32.
        key: A word of random bits, uint32.

    Reference: Black and Rogaway, "Ciphers with arbitrary finite domains", 2002 (cycle walking).
    """
    n = jnp.asarray(n, jnp.uint32)
    bits = 32 - lax.clz(jnp.maximum(n - 1, 1))
    mask = (jnp.uint32(2) << (bits - 1)) - 1
    half = (bits + 1) >> 1
    key = jnp.asarray(key, jnp.uint32)
    key = mixed(key)
    words = [word ^ (word >> 15) for word in (key * jnp.uint32(odd) for odd in ODD)]

    def scatter(x: Array) -> Array:
        for word in words:
            x = (x * (word | 1) + (word >> 9)) & mask
            x = x ^ (x >> half)
        return x

    def outside(x: Array) -> Array:
        return jnp.any(x >= n)

    def walk(x: Array) -> Array:
        return jnp.where(x >= n, scatter(x), x)

    x = lax.while_loop(outside, walk, scatter(jnp.asarray(i, jnp.uint32)))
    return lax.convert_element_type(x, jnp.int32)


def mixed(word: Array) -> Array:
    """A word whose every bit depends on all bits of the given one (the finaliser of MurmurHash3)."""
    word = jnp.asarray(word, jnp.uint32)
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
