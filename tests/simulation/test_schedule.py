"""Who takes part, on which samples, for how long."""

from collections import Counter
from functools import partial
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedplus as fp
from fedplus.simulation import Stragglers, Trace, Uniform, Weighted
from fedplus.simulation.minibatches import minibatches
from fedplus.simulation.schedule import Effort
from fedplus.simulation.shuffle import shuffled_position

words = st.integers(0, 2**32 - 1)


@jax.jit
def placed(i, n, key):
    return shuffled_position(*jnp.broadcast_arrays(i, n, jnp.asarray(key, jnp.uint32)))


@given(n=st.integers(1, 3000), key=words)
def test_a_shuffle_is_an_order_of_all(n, key):
    """For n below and above the padded length, and n that differ from place to place."""
    i = jnp.arange(3000)
    found = np.asarray(placed(i % n, n, jnp.uint32(key)))
    assert sorted(found[:n]) == list(range(n))


def test_every_order_is_as_likely():
    """χ² over all 120 orders of five, and over the places of one of a thousand."""
    bits = jax.random.bits(jax.random.key(0), (200_000,))
    five = np.asarray(placed(jnp.arange(5), 5, bits[:, None]))
    counts = Counter(map(tuple, five.tolist()))
    seen = np.array([counts[order] for order in permutations(range(5))])
    expected = len(bits) / 120
    assert ((seen - expected) ** 2 / expected).sum() < 2.5 * 119  # 12 standard deviations of χ²
    one = np.bincount(np.asarray(placed(7, 1000, bits)), minlength=1000)
    assert ((one - 200) ** 2 / 200).sum() < 1000 + 6 * np.sqrt(2000)


@partial(jax.jit, static_argnames="batch")
def rows_of_steps(key, start, size, batch):
    made = minibatches(key, start, size, batch)
    return jax.vmap(made)(jnp.arange(240, dtype=jnp.int32)).ravel()


@given(
    size=st.integers(1, 80), batch=st.sampled_from([1, 7, 30]), start=st.integers(0, 9), key=words
)
def test_an_epoch_sees_each_sample_once(size, batch, start, key):
    rows = np.asarray(rows_of_steps(jnp.uint32(key), jnp.int32(start), jnp.int32(size), batch))
    for epoch in range(3):
        seen = rows[epoch * size : (epoch + 1) * size]
        assert sorted(seen) == list(range(start, start + size))
    if size > 20:
        assert list(rows[:size]) != list(rows[size : 2 * size])


def test_drawn_at_once_or_step_by_step_is_the_same():
    key = jnp.array([5, 6], jnp.uint32)
    start, size = jnp.array([0, 40]), jnp.array([40, 3])
    at_once = minibatches(key, start, size, 8, most=3)
    lazy = jax.vmap(lambda k, a, n: jax.vmap(minibatches(k, a, n, 8))(jnp.arange(3)))
    np.testing.assert_array_equal(at_once, lazy(key, start, size))


@pytest.mark.parametrize(
    ("size", "parties"), [(1, 1), (1, 7), (7, 7), (3, 20), (99, 100), (10, 5000)]
)
def test_a_uniform_cohort_has_different_parties(size, parties):
    chosen = draws(Uniform(size), parties, many=300)
    assert all(len(set(row)) == size for row in chosen.tolist())
    assert chosen.min() >= 0
    assert chosen.max() < parties


def draws(cohort, parties, many=20_000):
    def one(key):
        return cohort(key, jnp.array(0), parties)[0]

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), many)))


def test_a_uniform_cohort_takes_every_pair_as_often():
    pairs = Counter(tuple(sorted(pair)) for pair in draws(Uniform(2), 6).tolist())
    counts = np.array([pairs[i, j] for i in range(6) for j in range(i + 1, 6)])
    assert abs(counts / 20_000 - 1 / 15).max() < 5 * np.sqrt(1 / 15 / 20_000)


def test_a_weighted_cohort_draws_in_proportion():
    """Pairs (i, j) come with probability pᵢ pⱼ / (1 − pᵢ), one after the other."""
    p = np.array([0.5, 0.3, 0.2, 0.0])
    found = draws(Weighted(jnp.array(p), 2), 4)
    for i, j in permutations(range(3), 2):
        expected = p[i] * p[j] / (1 - p[i])
        assert np.mean((found == [i, j]).all(1)) == pytest.approx(expected, abs=0.02)
    assert not (found == 3).any()


def test_a_trace_takes_those_who_are_there():
    there = np.array([[1, 1, 0, 1, 0], [0, 0, 1, 0, 0]], bool)
    cohort = Trace(jnp.array(there), 2)
    for t in range(6):
        chosen, present = cohort(jax.random.key(t), jnp.array(t), 5)
        assert len(set(chosen.tolist())) == 2
        np.testing.assert_array_equal(there[t % 2][chosen], present)
        assert present.sum() == min(2, there[t % 2].sum())


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_stragglers_are_an_exact_share_and_do_less(share):
    effort = Effort(jnp.full(10, 20), jnp.arange(1, 11))
    cohort = jnp.arange(10)
    for seed in range(30):
        key = jax.random.key(seed)
        steps, present = effort(key, cohort, Stragglers(share, drop=True))
        units = np.asarray(steps) / np.arange(1, 11)
        assert (units < 20).sum() == round(10 * share) == (~np.asarray(present)).sum()
        assert (units >= 1).all()
        np.testing.assert_array_equal(units, np.round(units))
        np.testing.assert_array_equal(effort(key, cohort, Stragglers(share))[0], steps)


def test_stragglers_do_what_their_own_distribution_says():
    effort = Effort(jnp.array([6, 8, 10]), jnp.array([1, 2, 3]))
    halves = Stragglers(1.0, units=lambda key, asked: asked // 2)
    steps, _ = effort(jax.random.key(0), jnp.arange(3), halves)
    assert steps.tolist() == [3, 8, 15]


def test_a_straggler_does_any_smaller_number_as_often():
    effort = Effort(jnp.full(1000, 5), jnp.ones(1000, int))
    steps, _ = effort(jax.random.key(0), jnp.arange(1000), Stragglers(1.0))
    counts = np.bincount(np.asarray(steps), minlength=6)
    assert counts[0] == counts[5] == 0
    assert abs(counts[1:5] - 250).max() < 5 * np.sqrt(250)


@pytest.mark.parametrize(
    ("cohort", "told"),
    [
        (6, "cohort must be from 1 to 5, got 6"),
        (0, "cohort must be from 1 to 5, got 0"),
        (Weighted(jnp.ones(4), 2), r"Weighted.weights must be \(5,\)"),
        (Trace(jnp.ones((3, 4)), 2), r"Trace.available must be \(rounds, 5\)"),
    ],
)
def test_a_cohort_that_the_federation_does_not_have(cohort, told):
    from small_federation import CLASSIFIER, federation

    with pytest.raises(fp.SettingError, match=told):
        fp.simulate(
            fp.presets.fedavg(eta=0.1), federation(), CLASSIFIER, rounds=1, steps=1, cohort=cohort
        )
