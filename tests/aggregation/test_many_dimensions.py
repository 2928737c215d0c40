"""Aggregates of models with many entries, where all parties are about as far from each other."""

import exact
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedplus import L1, L2, CoordinateMedian, GeometricMedian, Mean, Moreau
from fedplus.aggregation import kernels

DELTA = 0.1
geometric = pytest.mark.parametrize("aggregate", [GeometricMedian(), Moreau(L2(DELTA))])


def models_of(n, d, far=0.1, seed=0):
    """Models around a common one, as training leaves them; some, all in one place, far away."""
    rng = np.random.default_rng(seed)
    models = rng.normal(size=(n, d)) + rng.normal(size=d)
    models[rng.permutation(n)[: round(far * n)]] += 1e6 * rng.normal(size=d)
    return models.astype(np.float32)


def pull(models, weights, w, delta):
    """Mean pull of the parties on w, each of length at most 1, in float64."""
    x = np.asarray(models, np.float64) - np.asarray(w, np.float64)
    r = np.linalg.norm(x, axis=1)
    return (weights / np.maximum(r, delta)) @ x / weights.sum()


@geometric
@pytest.mark.parametrize("far", [0, 0.1, 0.3, 0.45])
@pytest.mark.parametrize("n", [3, 10, 50, 200])
def test_pulls_balance_after_a_few_turns(aggregate, n, far):
    models = models_of(n, 3000, far)
    weights = np.random.default_rng(1).uniform(0.5, 1, n).astype(np.float32)
    for each in (None, weights):
        found = aggregate(models, each)
        assert found.converged
        assert found.iterations <= 12
        each = np.ones(n) if each is None else each
        assert np.linalg.norm(pull(models, each, found.w, DELTA)) <= 3e-6


@geometric
def test_where_more_than_half_are_at_one_place_it_is_within_delta_of_it(aggregate):
    models = models_of(9, 3000, far=0)
    models[[1, 3, 4, 7, 8]] = models[1]
    delta = DELTA if isinstance(aggregate, Moreau) else 0
    assert np.linalg.norm(aggregate(models).w - models[1]) <= delta + 1e-4
    models[1, 0] += 1  # Four of nine no longer hold it.
    found = aggregate(models)
    assert found.converged
    spread = np.linalg.norm(models[0] - models[1])
    assert all(exact.gap(models, np.ones(9), delta, found.w, w) <= 1e-6 * spread for w in models)


@pytest.mark.parametrize("place", [0.0, 1.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.1, 1.0])
@pytest.mark.parametrize("idle", [0.55, 0.9, 0.99])
def test_while_most_parties_have_not_trained(idle, delta, place):
    """They are where all began, and so was last round's w̃, or nearly: pulls balance, in few turns."""
    rng = np.random.default_rng(0)
    models = np.full((200, 3000), place)
    trained = round(200 * (1 - idle))
    models[:trained] += rng.normal(size=(trained, 3000)) * 0.01
    models = models.astype(np.float32)
    for near in (0.0, 1e-5):
        start = models[-1] + near * rng.normal(size=3000).astype(np.float32)
        found = Moreau(L2(delta))(models, start=start)
        assert found.converged
        assert found.iterations <= 12
        rounding = 4e-6 * np.linalg.norm(models[-1]) / delta  # Of w, by that much of its size.
        assert np.linalg.norm(pull(models, np.ones(200), found.w, delta)) <= 3e-6 + rounding


@geometric
def test_from_last_rounds_result_two_turns_are_enough(aggregate):
    models = models_of(100, 3000, far=0)
    before = aggregate(models).w
    models[:2] += 0.01
    warm = aggregate(models, start=before)
    assert warm.converged
    assert warm.iterations <= 2
    assert np.allclose(warm.w, aggregate(models).w, atol=1e-5)


@geometric
def test_of_several_at_once_each_takes_its_own_turns(aggregate):
    """One that is done at once, one in a few ordinary turns, one at a place of many parties."""
    stacks = np.stack([models_of(8, 100, far, seed) for far, seed in ((0, 0), (0.3, 1), (0, 2))])
    stacks[0], stacks[2, :5] = stacks[0, 0], stacks[2, 0]
    together = jax.jit(jax.vmap(aggregate))(stacks)
    for i, models in enumerate(stacks):
        assert together.converged[i]
        assert np.allclose(together.w[i], aggregate(models).w, atol=2e-5)


@pytest.mark.parametrize("delta", [0.001, 0.1, 1.0])
@pytest.mark.parametrize("n", [10, 64, 65, 200])
def test_soft_medians_residual_is_the_recursions_next_move(n, delta):
    models = models_of(n, 1000, 0.3)
    found = Moreau(L1(delta))(models)
    assert found.converged
    move = np.clip(models.astype(np.float64) - np.asarray(found.w), -delta, delta).mean(axis=0)
    assert np.isclose(found.residual, np.linalg.norm(move), atol=1e-5 * delta * np.sqrt(1000))


@pytest.mark.parametrize("n", [65, 200, 513])
@pytest.mark.parametrize("spread", ["ties", "far", "skewed", "heavy tails"])
def test_coordinate_median_is_numpys(n, spread):
    models = models_of(n, 700, 0.3 if spread == "far" else 0)
    if spread == "ties":
        models = models.round(0)
    elif spread in ("skewed", "heavy tails"):
        models = np.exp(3 * models) if spread == "skewed" else models**9
    found = CoordinateMedian()(models)
    assert found.converged
    assert np.allclose(found.w, np.median(models, axis=0), rtol=3e-7, atol=0)
    again = CoordinateMedian()(models, start=found.w)
    assert np.array_equal(again.w, found.w)


@pytest.mark.parametrize("d", [1, 15, 63, 64, 65, 1000, 1039])
def test_distances_by_their_definition(d):
    models = models_of(7, d)
    expected = np.linalg.norm(models.astype(np.float64) - models[2], axis=1)
    r, _ = kernels.pulls(jnp.asarray(models), jnp.ones(len(models)), 0.1, jnp.asarray(models[2]))
    assert np.allclose(r, expected, rtol=1e-5)


def test_large_numbers_are_not_taken_for_infinite_ones():
    models = np.full((3, 50), 3e38, np.float32)
    assert np.allclose(Mean()(models).w, models[0])


@pytest.mark.parametrize("aggregate", [Mean(), CoordinateMedian(), Moreau(L2(DELTA))])
def test_models_known_while_a_program_is_traced(aggregate):
    models = models_of(5, 20)
    found = jax.jit(lambda: aggregate(models))()
    assert found.converged
    assert np.allclose(found.w, aggregate(models).w, rtol=1e-5)
