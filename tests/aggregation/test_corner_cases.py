"""Inputs that once gave a wrong aggregate."""

import criteria
import exact
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus.aggregation import ChangedRows


@pytest.mark.parametrize("constant", [0, 1e5, 1e7])
@pytest.mark.parametrize("delta", [0, 0.1])
def test_large_entries_that_are_equal_in_all_models_excuse_nothing(constant, delta):
    rng = np.random.default_rng(0)
    models = rng.standard_normal((40, 6)).astype(np.float32)
    models[:, 5] = constant
    aggregator = fp.Moreau(fp.L2(delta)) if delta else fp.GeometricMedian()
    found = aggregator(models, start=models.mean(axis=0))
    assert found.converged
    varying = exact.weighted(models[:, :5], np.ones(40))
    assert criteria.geometric_median_error(*varying, float(np.float32(delta)), found.w[:5]) <= 1


@pytest.mark.parametrize("n", [100, 2000, 20_000])
def test_equal_weights_tie_as_no_weights_do(n):
    """Sums of many weights of 0.1 are rounded, which changes no interval of roots."""
    rng = np.random.default_rng(1)
    models = np.concatenate([np.full((n // 2, 3), -1.0), np.full((n // 2, 3), 1.0)])
    models[0] = 1.0 - 2.0 * n * np.array([0.3, 0.2, 0.1])  # Puts the mean within the interval.
    models = rng.permutation(models).astype(np.float32)
    aggregator = fp.Moreau(fp.L1(0.01))
    even = aggregator(models).w
    np.testing.assert_allclose(aggregator(models, np.full(n, 0.1)).w, even, atol=1e-3)
    np.testing.assert_allclose(even, np.clip(models.mean(axis=0), -0.99, 0.99), atol=1e-3)


@pytest.mark.parametrize("tau", [1e3, 1e30, 1e37])
def test_clipping_with_a_radius_beyond_all_models_is_the_mean(tau):
    models = np.random.default_rng(2).standard_normal((7, 5)).astype(np.float32)
    np.testing.assert_allclose(fp.NormClipping(tau)(models).w, models.mean(axis=0), atol=1e-5)


def test_weights_and_a_start_of_another_type_are_converted():
    models = np.random.default_rng(3).standard_normal((30, 8)).astype(np.float32)
    weights = np.arange(1, 31)
    expected = fp.GeometricMedian()(models, weights.astype(np.float32)).w
    found = fp.GeometricMedian()(models, weights, start=np.zeros(8, np.float64)).w
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_mean_with_a_memory_ends_if_a_changed_model_is_not_finite(value):
    """It looked at W again and again."""
    models, mean = jnp.ones((40, 3)), fp.Mean()
    changed = ChangedRows(jnp.array([0]), models[:1])
    memory = mean.init(models[0], 40, 1)
    found, _ = mean.update(models.at[0].set(value), None, models[0], memory, changed)
    assert not np.isfinite(found.w).any()


def test_a_mean_with_a_memory_is_right_if_nothing_changed_since_the_start():
    models, mean = jnp.full((40, 3), 2.0), fp.Mean()
    changed = ChangedRows(jnp.zeros(0, int), models[:0])
    found, _ = mean.update(models, None, models[0], mean.init(models[0], 40, 0), changed)
    np.testing.assert_allclose(found.w, 2.0)


@pytest.mark.parametrize("aggregator", [fp.Mean(), fp.GeometricMedian(), fp.Moreau(fp.L1(0.1))])
def test_weights_may_be_traced_where_models_are_numpys(aggregator):
    models = np.random.default_rng(4).standard_normal((9, 4)).astype(np.float32)
    weights = np.arange(1, 10).astype(np.float32)
    found = jax.jit(lambda each: aggregator(models, each).w)(weights)
    np.testing.assert_allclose(found, aggregator(models, weights).w, atol=1e-5)


@pytest.mark.parametrize("aggregator", [fp.GeometricMedian(), fp.Moreau(fp.L1(0.1))])
def test_half_precision_is_aggregated_in_single_precision(aggregator):
    models = np.random.default_rng(5).standard_normal((9, 4)).astype(np.float16)
    found = aggregator(jnp.asarray(models))
    assert found.converged
    np.testing.assert_allclose(found.w, aggregator(models.astype(np.float32)).w, atol=1e-5)


def test_a_model_that_is_not_finite_ends_the_search():
    models = jnp.asarray(np.random.default_rng(6).standard_normal((20, 4)), jnp.float32)
    found = jax.jit(fp.GeometricMedian().solve)(models.at[3, 2].set(jnp.nan), None, None)
    assert found.iterations < 5
    assert not found.converged
