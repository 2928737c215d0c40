"""Geometric medians at or near a model whose weight almost balances the gradient of all others."""

import exact_aggregates as exact
import hypothesis
import jax
import numpy as np
import pytest
import relative_errors
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplus import L2, GeometricMedian, Moreau

EXCESS = [s * 10.0**-k for k in (1, 2, 3, 4, 6) for s in (1, -1)] + [0.0]
N, D = 9, 6


@st.composite
def almost_balanced_models(draw, dtype):
    """Draw models and weights: one model has (1 + excess) times the weight that makes it the median.

    They are padded with models of weight 0 and columns of zeros, so that all have the same shape.
    """
    n, d = draw(st.sampled_from([(2, 2), (3, 2), (4, 5), (6, 3), (9, 6)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(
        st.sampled_from(["any", "line", "nearly a line", "pairs", "duplicates", "one heavy"])
    )
    models = rng.normal(size=(n, d))
    if kind in ("line", "nearly a line"):
        off = 0 if kind == "line" else draw(st.sampled_from([1e-1, 1e-3]))
        models = rng.normal(size=(n, 1)) * rng.normal(size=d) + off * models
    if kind == "pairs":
        close = draw(st.sampled_from([1e-1, 1e-2, 1e-4]))
        models[1::2] = models[: n // 2 * 2 : 2] + close * models[1::2]
    if kind == "duplicates":
        models = models[np.sort(rng.integers(0, n, size=n))]
    weights = rng.uniform(0.1, 1, size=n)
    if kind == "one heavy":
        weights[1] = 3 * n
    if dtype == np.float64 or kind != "line":  # Rounding bends a line far from the origin.
        models += draw(st.sampled_from([0.0, 5.0]))
    x = models - models[0]
    r = np.linalg.norm(x, axis=1)
    is_copy = r == 0
    gradient = np.linalg.norm((weights[~is_copy] / r[~is_copy]) @ x[~is_copy])
    excess = draw(st.sampled_from(EXCESS))
    weights[0] = max(gradient * (1 + excess) - weights[1:][is_copy[1:]].sum(), 0.1)
    order = rng.permutation(n)
    padded, padded_weights = np.zeros((N, D), dtype), np.zeros(N, dtype)
    padded[:n, :d], padded_weights[:n] = models[order], weights[order]
    return padded, padded_weights


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("delta", [0, 1e-4, 0.3])
@given(data=st.data())
@settings(max_examples=25)
def test_a_converged_median_at_or_near_a_model_is_a_minimiser(dtype, delta, data):
    models, weights = data.draw(almost_balanced_models(dtype))
    with jax.enable_x64(dtype == np.float64):
        result = (Moreau(L2(delta)) if delta else GeometricMedian())(models, weights)
    delta = float(dtype(delta))
    hypothesis.assume(result.converged)
    counted = exact.weighted(models, weights)
    assert relative_errors.geometric_objective_error(*counted, delta, result.w) <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("delta", [0, 1e-4, 0.3])
@given(data=st.data())
@settings(max_examples=25)
def test_a_median_without_certificate_still_has_a_low_objective(dtype, delta, data):
    """Few ill-conditioned inputs get no certificate; their results are still accurate."""
    models, weights = data.draw(almost_balanced_models(dtype))
    with jax.enable_x64(dtype == np.float64):
        result = (Moreau(L2(delta)) if delta else GeometricMedian())(models, weights)
    exact_models, exact_weights = exact.weighted(models, weights)
    best = exact.geometric_median(exact_models, exact_weights, float(dtype(delta)))
    gap = exact.gap(exact_models, exact_weights, float(dtype(delta)), result.w, best.w)
    assert gap <= 1e-5 * np.median(exact.distances(exact_models, best.w)) + 1e-6
