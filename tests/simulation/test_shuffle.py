"""``shuffled_position`` computes uniform random permutations."""

from collections import Counter
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedplus.simulation.shuffle import shuffled_position


@jax.jit
def positions(i, n, key):
    return shuffled_position(*jnp.broadcast_arrays(i, n, jnp.asarray(key, jnp.uint32)))


@given(n=st.integers(1, 3000), key=st.integers(0, 2**32 - 1))
def test_the_positions_are_a_permutation(n, key):
    i = jnp.arange(3000)
    shuffled = np.asarray(positions(i % n, n, jnp.uint32(key)))
    assert sorted(shuffled[:n]) == list(range(n))


def test_all_permutations_are_equally_likely():
    """χ² compares all 120 permutations of five items, and the positions of one item among 1,000."""
    bits = jax.random.bits(jax.random.key(0), (200_000,))
    five = np.asarray(positions(jnp.arange(5), 5, bits[:, None]))
    counts = Counter(map(tuple, five.tolist()))
    observed = np.array([counts[order] for order in permutations(range(5))])
    expected = len(bits) / 120
    assert ((observed - expected) ** 2 / expected).sum() < 2.5 * 119  # 12 standard deviations of χ²
    one = np.bincount(np.asarray(positions(7, 1000, bits)), minlength=1000)
    assert ((one - 200) ** 2 / 200).sum() < 1000 + 6 * np.sqrt(2000)
