"""The accuracy of aggregates of ordinary models, by exact references and the paper's recursion."""

import exact_aggregates as exact
import numpy as np
import pytest
import relative_errors
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import assert_near, deltas, every_shape, weighted_models

from fedplus import (
    L1,
    L2,
    Anchor,
    Blocks,
    CoordinateMedian,
    Custom,
    GeometricMedian,
    Mean,
    Moreau,
    Quadratic,
    Recursion,
    Zero,
)  # fmt: skip
from fedplus.aggregation.recursion import recursion_step

some_shapes = pytest.mark.parametrize("shape", [(4, 5), (40, 6)], ids=lambda s: f"{s[0]}x{s[1]}")


@every_shape
@given(data=st.data())
@settings(max_examples=10)
def test_the_mean_is_exact(shape, data):
    models, weights = data.draw(weighted_models(shape))
    for aggregate in (Mean(), *(Moreau(psi) for psi in (Zero(), Anchor(), Quadratic(0.1)))):
        result = aggregate(models, weights)
        assert result.converged
        assert relative_errors.mean_error(*exact.weighted(models, weights), result.w) <= 1


@every_shape
@given(data=st.data())
@settings(max_examples=25)
def test_the_coordinate_median_is_exact(shape, data):
    models, weights = data.draw(weighted_models(shape))
    result = CoordinateMedian()(models, weights)
    assert result.converged
    assert relative_errors.coordinate_median_error(*exact.weighted(models, weights), result.w) <= 1


@every_shape
@given(data=st.data(), delta=deltas)
@settings(max_examples=25)
def test_the_delta_coordinate_median_is_exact(shape, data, delta):
    models, weights = data.draw(weighted_models(shape))
    delta = float(np.float32(delta))
    result = Moreau(L1(delta))(models, weights)
    assert result.converged
    models, weights = exact.weighted(models, weights)
    assert relative_errors.soft_coordinate_median_error(models, weights, delta, result.w) <= 1


@every_shape
@given(data=st.data(), delta=deltas | st.just(0.0))
@settings(max_examples=25)
def test_the_geometric_median_is_a_minimiser(shape, data, delta):
    models, weights = data.draw(weighted_models(shape))
    delta = float(np.float32(delta))
    result = (Moreau(L2(delta)) if delta else GeometricMedian())(models, weights)
    assert result.converged
    models, weights = exact.weighted(models, weights)
    assert relative_errors.geometric_median_error(models, weights, delta, result.w) <= 1


def has_unique_median(models):
    """Return True if the models are not collinear, where the minimisers may form an interval."""
    return np.linalg.matrix_rank(models - models[0], tol=1e-3) > 1


@pytest.mark.usefixtures("x64")
@some_shapes
@given(data=st.data(), delta=st.sampled_from([0.1, 0.5, 3.0]))
@settings(max_examples=4)
@pytest.mark.parametrize("make", [L1, L2, "blocks", "custom"])
def test_the_papers_recursion_stops_at_the_same_point(shape, make, data, delta):
    n, d = shape
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    models = rng.normal(size=shape).round(data.draw(st.sampled_from([1, 12])))
    models[: (n - 1) // 4] += 5 * rng.normal(size=d)
    weights = data.draw(st.sampled_from([None, rng.uniform(0.2, 1, size=n)]))
    if make == "blocks":
        psi = Blocks({"a": L1(delta), "b": L2(2 * delta)}, (("a", d - d // 2), ("b", d // 2)))
    elif make == "custom":
        psi = Custom(L2(delta).value, L2(delta).prox)
    else:
        psi = make(delta)
    slow = Recursion(psi, tolerance=1e-9, max_iterations=300_000)(models, weights)
    fast = Moreau(psi)(models, weights)
    assert slow.converged
    assert fast.converged
    if make is L1 or has_unique_median(models):
        assert_near(fast.w, slow.w, models)
    residual = np.linalg.norm(
        recursion_step(psi, models, np.ones(n) if weights is None else weights, fast.w)[0]
    )
    assert np.isclose(fast.residual, residual, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_of_an_interval_of_roots_the_one_nearest_to_the_mean_is_returned():
    """The roots are [1.5, 8.5]."""
    models = np.array([[0.0], [1.0], [9.0], [20.0]])  # The mean is 7.5.
    assert np.isclose(Moreau(L1(0.5))(models).w, 7.5)
    models[3] = 40.0  # The mean is 12.5.
    assert np.isclose(Moreau(L1(0.5))(models).w, 8.5)
    assert np.isclose(Recursion(L1(0.5), tolerance=1e-12)(models).w, 8.5)
    assert np.isclose(Moreau(L2(0.5))(models).w, 8.5)
