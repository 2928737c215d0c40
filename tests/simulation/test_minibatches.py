"""Minibatches go through all samples of a party in every epoch."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedplus.simulation.minibatches import minibatches


@partial(jax.jit, static_argnames="batch")
def rows_of_steps(key, start, size, batch):
    draw = minibatches(key, start, size, batch)
    return jax.vmap(draw)(jnp.arange(240, dtype=jnp.int32)).ravel()


@given(
    size=st.integers(1, 80),
    batch=st.sampled_from([1, 7, 30]),
    start=st.integers(0, 9),
    key=st.integers(0, 2**32 - 1),
)
def test_an_epoch_has_each_sample_once(size, batch, start, key):
    rows = np.asarray(rows_of_steps(jnp.uint32(key), jnp.int32(start), jnp.int32(size), batch))
    for epoch in range(3):
        samples = rows[epoch * size : (epoch + 1) * size]
        assert sorted(samples) == list(range(start, start + size))
    if size > 20:
        assert list(rows[:size]) != list(rows[size : 2 * size])


def test_rows_drawn_at_once_are_those_drawn_step_by_step():
    key = jnp.array([5, 6], jnp.uint32)
    start, size = jnp.array([0, 40]), jnp.array([40, 3])
    at_once = minibatches(key, start, size, 8, max_steps=3)
    stepwise = jax.vmap(lambda k, a, n: jax.vmap(minibatches(k, a, n, 8))(jnp.arange(3)))
    np.testing.assert_array_equal(at_once, stepwise(key, start, size))
