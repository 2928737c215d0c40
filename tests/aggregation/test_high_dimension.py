"""Aggregates of models with many entries, which are all at similar distances from each other."""

import exact_aggregates as exact
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedplus import L1, L2, CoordinateMedian, GeometricMedian, Mean, Moreau
from fedplus.aggregation import kernels

DELTA = 0.1
geometric = pytest.mark.parametrize("aggregate", [GeometricMedian(), Moreau(L2(DELTA))])


def models_of(n, d, far=0.1, seed=0):
    """Return models around a common one, of which a share ``far`` is shifted far away together."""
    rng = np.random.default_rng(seed)
    models = rng.normal(size=(n, d)) + rng.normal(size=d)
    models[rng.permutation(n)[: round(far * n)]] += 1e6 * rng.normal(size=d)
    return models.astype(np.float32)


def mean_gradient(models, weights, w, delta):
    """Return the negative gradient at w, a mean of vectors of length at most 1, in float64."""
    x = np.asarray(models, np.float64) - np.asarray(w, np.float64)
    r = np.linalg.norm(x, axis=1)
    return (weights / np.maximum(r, delta)) @ x / weights.sum()


@geometric
@pytest.mark.parametrize("far", [0, 0.1, 0.3, 0.45])
@pytest.mark.parametrize("n", [3, 10, 50, 200])
def test_the_gradient_is_zero_after_a_few_iterations(aggregate, n, far):
    models = models_of(n, 3000, far)
    weights = np.random.default_rng(1).uniform(0.5, 1, n).astype(np.float32)
    for each in (None, weights):
        result = aggregate(models, each)
        assert result.converged
        assert result.iterations <= 12
        each = np.ones(n) if each is None else each
        assert np.linalg.norm(mean_gradient(models, each, result.w, DELTA)) <= 3e-6


@geometric
def test_the_median_is_within_delta_of_a_model_that_more_than_half_share(aggregate):
    models = models_of(9, 3000, far=0)
    models[[1, 3, 4, 7, 8]] = models[1]
    delta = DELTA if isinstance(aggregate, Moreau) else 0
    assert np.linalg.norm(aggregate(models).w - models[1]) <= delta + 1e-4
    models[1, 0] += 1  # Now only four of nine share it.
    result = aggregate(models)
    assert result.converged
    spread = np.linalg.norm(models[0] - models[1])
    assert all(exact.gap(models, np.ones(9), delta, result.w, w) <= 1e-6 * spread for w in models)


@pytest.mark.parametrize("initial", [0.0, 1.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.1, 1.0])
@pytest.mark.parametrize("idle", [0.55, 0.9, 0.99])
def test_few_iterations_are_enough_while_most_parties_have_not_trained(idle, delta, initial):
    """These parties still have the initial model, which is also the last round's w̃, or near it."""
    rng = np.random.default_rng(0)
    models = np.full((200, 3000), initial)
    trained = round(200 * (1 - idle))
    models[:trained] += rng.normal(size=(trained, 3000)) * 0.01
    models = models.astype(np.float32)
    for near in (0.0, 1e-5):
        start = models[-1] + near * rng.normal(size=3000).astype(np.float32)
        result = Moreau(L2(delta))(models, start=start)
        assert result.converged
        assert result.iterations <= 12
        rounding = 4e-6 * np.linalg.norm(models[-1]) / delta
        assert (
            np.linalg.norm(mean_gradient(models, np.ones(200), result.w, delta)) <= 3e-6 + rounding
        )


@geometric
def test_two_iterations_from_the_last_result_are_enough(aggregate):
    models = models_of(100, 3000, far=0)
    before = aggregate(models).w
    models[:2] += 0.01
    warm = aggregate(models, start=before)
    assert warm.converged
    assert warm.iterations <= 2
    assert np.allclose(warm.w, aggregate(models).w, atol=1e-5)


@geometric
def test_several_aggregates_at_once_equal_each_by_itself(aggregate):
    """One converges at once, one in a few iterations, and one at a model that many parties share."""
    stacks = np.stack([models_of(8, 100, far, seed) for far, seed in ((0, 0), (0.3, 1), (0, 2))])
    stacks[0], stacks[2, :5] = stacks[0, 0], stacks[2, 0]
    together = jax.jit(jax.vmap(aggregate))(stacks)
    for i, models in enumerate(stacks):
        assert together.converged[i]
        assert np.allclose(together.w[i], aggregate(models).w, atol=2e-5)


@pytest.mark.parametrize("delta", [0.001, 0.1, 1.0])
@pytest.mark.parametrize("n", [10, 64, 65, 200])
def test_the_residual_of_the_delta_median_is_the_recursions_next_step(n, delta):
    models = models_of(n, 1000, 0.3)
    result = Moreau(L1(delta))(models)
    assert result.converged
    step = np.clip(models.astype(np.float64) - np.asarray(result.w), -delta, delta).mean(axis=0)
    assert np.isclose(result.residual, np.linalg.norm(step), atol=1e-5 * delta * np.sqrt(1000))


@pytest.mark.parametrize("n", [65, 200, 513])
@pytest.mark.parametrize("spread", ["ties", "far", "skewed", "heavy tails"])
def test_the_coordinate_median_equals_numpys(n, spread):
    models = models_of(n, 700, 0.3 if spread == "far" else 0)
    if spread == "ties":
        models = models.round(0)
    elif spread in ("skewed", "heavy tails"):
        models = np.exp(3 * models) if spread == "skewed" else models**9
    result = CoordinateMedian()(models)
    assert result.converged
    assert np.allclose(result.w, np.median(models, axis=0), rtol=3e-7, atol=0)
    restarted = CoordinateMedian()(models, start=result.w)
    assert np.array_equal(restarted.w, result.w)


@pytest.mark.parametrize("d", [1, 15, 63, 64, 65, 1000, 1039])
def test_distances_fulfil_their_definition(d):
    models = models_of(7, d)
    expected = np.linalg.norm(models.astype(np.float64) - models[2], axis=1)
    ones = jnp.ones(len(models))
    r, _ = kernels.distances_and_descent(jnp.asarray(models), ones, 0.1, jnp.asarray(models[2]))
    assert np.allclose(r, expected, rtol=1e-5)


def test_large_numbers_are_not_treated_as_infinite():
    models = np.full((3, 50), 3e38, np.float32)
    assert np.allclose(Mean()(models).w, models[0])


@pytest.mark.parametrize("aggregate", [Mean(), CoordinateMedian(), Moreau(L2(DELTA))])
def test_concrete_models_can_be_aggregated_in_a_traced_program(aggregate):
    models = models_of(5, 20)
    result = jax.jit(lambda: aggregate(models))()
    assert result.converged
    assert np.allclose(result.w, aggregate(models).w, rtol=1e-5)
