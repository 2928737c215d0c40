"""Cohorts are drawn as their rules say, and stragglers do less work."""

from collections import Counter
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus.simulation import Stragglers, Trace, Uniform, Weighted
from fedplus.simulation.participation import Effort
from small_federation import CLASSIFIER, federation


@pytest.mark.parametrize(
    ("size", "parties"), [(1, 1), (1, 7), (7, 7), (3, 20), (99, 100), (10, 5000)]
)
def test_a_uniform_cohort_has_different_parties(size, parties):
    chosen = draw_cohorts(Uniform(size), parties, rounds=300)
    assert all(len(set(row)) == size for row in chosen.tolist())
    assert chosen.min() >= 0
    assert chosen.max() < parties


def draw_cohorts(cohort, parties, rounds=20_000):
    def draw(key):
        return cohort(key, jnp.array(0), parties)[0]

    return np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(1), rounds)))


def test_a_uniform_cohort_has_every_pair_equally_often():
    pairs = Counter(tuple(sorted(pair)) for pair in draw_cohorts(Uniform(2), 6).tolist())
    counts = np.array([pairs[i, j] for i in range(6) for j in range(i + 1, 6)])
    assert abs(counts / 20_000 - 1 / 15).max() < 5 * np.sqrt(1 / 15 / 20_000)


def test_a_weighted_cohort_draws_in_proportion_to_the_weights():
    """The ordered pair (i, j) has probability pᵢ pⱼ / (1 − pᵢ)."""
    p = np.array([0.5, 0.3, 0.2, 0.0])
    pairs = draw_cohorts(Weighted(jnp.array(p), 2), 4)
    for i, j in permutations(range(3), 2):
        expected = p[i] * p[j] / (1 - p[i])
        assert np.mean((pairs == [i, j]).all(1)) == pytest.approx(expected, abs=0.02)
    assert not (pairs == 3).any()


def test_a_trace_draws_from_the_available_parties():
    available = np.array([[1, 1, 0, 1, 0], [0, 0, 1, 0, 0]], bool)
    cohort = Trace(jnp.array(available), 2)
    for t in range(6):
        chosen, present = cohort(jax.random.key(t), jnp.array(t), 5)
        assert len(set(chosen.tolist())) == 2
        np.testing.assert_array_equal(available[t % 2][chosen], present)
        assert present.sum() == min(2, available[t % 2].sum())


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_stragglers_are_an_exact_share_of_the_cohort_and_do_less(share):
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


def test_the_work_of_stragglers_can_be_given_as_a_function():
    effort = Effort(jnp.array([6, 8, 10]), jnp.array([1, 2, 3]))
    halves = Stragglers(1.0, units=lambda key, planned: planned // 2)
    steps, _ = effort(jax.random.key(0), jnp.arange(3), halves)
    assert steps.tolist() == [3, 8, 15]


def test_a_straggler_does_every_smaller_number_of_units_equally_often():
    effort = Effort(jnp.full(1000, 5), jnp.ones(1000, int))
    steps, _ = effort(jax.random.key(0), jnp.arange(1000), Stragglers(1.0))
    counts = np.bincount(np.asarray(steps), minlength=6)
    assert counts[0] == counts[5] == 0
    assert abs(counts[1:5] - 250).max() < 5 * np.sqrt(250)


@pytest.mark.parametrize(
    ("cohort", "message"),
    [
        (6, "cohort must be from 1 to 5, got 6"),
        (0, "cohort must be from 1 to 5, got 0"),
        (Weighted(jnp.ones(4), 2), r"Weighted.weights must be \(5,\)"),
        (Trace(jnp.ones((3, 4)), 2), r"Trace.available must be \(rounds, 5\)"),
    ],
)
def test_a_cohort_that_does_not_fit_the_federation_is_rejected(cohort, message):
    with pytest.raises(fp.SettingError, match=message):
        fp.simulate(
            fp.presets.fedavg(eta=0.1), federation(), CLASSIFIER, rounds=1, steps=1, cohort=cohort
        )
