"""Regression tests: inputs for which an aggregate was once wrong."""

import exact_aggregates as exact
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import relative_errors

import fedplus as fp
from fedplus.aggregation import ChangedRows


@pytest.mark.parametrize("constant", [0, 1e5, 1e7])
@pytest.mark.parametrize("delta", [0, 0.1])
def test_large_entries_that_are_equal_in_all_models_do_not_allow_larger_errors(constant, delta):
    rng = np.random.default_rng(0)
    models = rng.standard_normal((40, 6)).astype(np.float32)
    models[:, 5] = constant
    aggregator = fp.Moreau(fp.L2(delta)) if delta else fp.GeometricMedian()
    result = aggregator(models, start=models.mean(axis=0))
    assert result.converged
    varying = exact.weighted(models[:, :5], np.ones(40))
    delta = float(np.float32(delta))
    assert relative_errors.geometric_median_error(*varying, delta, result.w[:5]) <= 1


@pytest.mark.parametrize("n", [100, 2000, 20_000])
def test_equal_weights_give_the_same_median_as_no_weights(n):
    """Sums of many weights of 0.1 are rounded, which must not change the interval of roots."""
    rng = np.random.default_rng(1)
    models = np.concatenate([np.full((n // 2, 3), -1.0), np.full((n // 2, 3), 1.0)])
    models[0] = 1.0 - 2.0 * n * np.array([0.3, 0.2, 0.1])  # The mean is in the interval.
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
    result = fp.GeometricMedian()(models, weights, start=np.zeros(8, np.float64)).w
    np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_incremental_mean_ends_if_a_changed_model_is_not_finite(value):
    """The loop that sums all models did not end."""
    models, mean = jnp.ones((40, 3)), fp.Mean()
    changed = ChangedRows(jnp.array([0]), models[:1])
    memory = mean.init(models[0], 40, 1)
    result, _ = mean.update(models.at[0].set(value), None, models[0], memory, changed)
    assert not np.isfinite(result.w).any()


def test_an_incremental_mean_is_right_if_no_model_has_changed():
    models, mean = jnp.full((40, 3), 2.0), fp.Mean()
    changed = ChangedRows(jnp.zeros(0, int), models[:0])
    result, _ = mean.update(models, None, models[0], mean.init(models[0], 40, 0), changed)
    np.testing.assert_allclose(result.w, 2.0)


@pytest.mark.parametrize("aggregator", [fp.Mean(), fp.GeometricMedian(), fp.Moreau(fp.L1(0.1))])
def test_weights_may_be_traced_if_models_are_a_numpy_array(aggregator):
    models = np.random.default_rng(4).standard_normal((9, 4)).astype(np.float32)
    weights = np.arange(1, 10).astype(np.float32)
    result = jax.jit(lambda a: aggregator(models, a).w)(weights)
    np.testing.assert_allclose(result, aggregator(models, weights).w, atol=1e-5)


@pytest.mark.parametrize("aggregator", [fp.GeometricMedian(), fp.Moreau(fp.L1(0.1))])
def test_half_precision_is_aggregated_in_single_precision(aggregator):
    models = np.random.default_rng(5).standard_normal((9, 4)).astype(np.float16)
    result = aggregator(jnp.asarray(models))
    assert result.converged
    np.testing.assert_allclose(result.w, aggregator(models.astype(np.float32)).w, atol=1e-5)


def test_a_model_that_is_not_finite_ends_the_iteration():
    models = jnp.asarray(np.random.default_rng(6).standard_normal((20, 4)), jnp.float32)
    result = jax.jit(fp.GeometricMedian().solve)(models.at[3, 2].set(jnp.nan), None, None)
    assert result.iterations < 5
    assert not result.converged
