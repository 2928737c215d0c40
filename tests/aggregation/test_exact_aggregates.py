"""The reference aggregates of ``exact_aggregates`` fulfil their definitions."""

from fractions import Fraction

import exact_aggregates as exact
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, n=st.integers(1, 9))
def test_the_exact_median_equals_numpys(seed, n):
    models = np.random.default_rng(seed).normal(size=(n, 4)).round(1)
    result = exact.coordinate_median(models, np.ones(n)).astype(float)
    np.testing.assert_allclose(result, np.median(models, axis=0), rtol=1e-15)


@given(seed=seeds, n=st.integers(1, 9), delta=st.integers(1, 30))
def test_the_exact_delta_median_is_the_root_nearest_to_the_mean(seed, n, delta):
    rng = np.random.default_rng(seed)
    values, weights = rng.integers(-20, 20, size=n).tolist(), rng.integers(1, 4, size=n).tolist()
    interval = exact.soft_median_interval(values, weights, delta)
    root = exact.nearest_to_mean(interval, values, weights)

    def g(w):
        return exact.clipped_sum(values, weights, delta, w)

    mean = exact.average(values, weights)
    assert g(root) == 0
    assert root == mean or g(root + (mean - root) / 10**9) != 0


@given(
    seed=seeds,
    n=st.integers(3, 9),
    delta=st.sampled_from([0.0, 1e-9, 0.3, 2.0, 1e9]),
    heavy=st.booleans(),
)
def test_no_point_is_lower_than_the_exact_geometric_median(seed, n, delta, heavy):
    rng = np.random.default_rng(seed)
    models, weights = rng.normal(size=(n, 3)), rng.uniform(0.1, 1, size=n)
    weights[0] += heavy * weights.sum()
    best = exact.geometric_median(models, weights, delta)
    assert best.slope <= 1e-16
    others = [best.w + 10.0**-k * rng.normal(size=3) for k in range(9)]
    assert min(exact.gap(models, weights, delta, w, best.w) for w in [*models, *others]) >= 0


@pytest.mark.parametrize("delta", [0.0, 0.3, 50.0])
def test_the_gap_is_the_difference_of_two_objectives(delta):
    models, w, other = np.split(np.random.default_rng(0).normal(size=(9, 3)), [7, 8])

    def value(w):
        r = np.linalg.norm(models - w, axis=1)
        return np.mean(np.where(r > delta, r - delta / 2, r**2 / (2 * (delta or 1))))

    result = exact.gap(models, np.ones(7), delta, w[0], other[0])
    assert np.isclose(result, value(w[0]) - value(other[0]))


@given(seed=seeds, n=st.integers(1, 9), delta=st.sampled_from([0.25, 2.0, 64.0]))
def test_the_geometric_median_of_collinear_models_is_one_dimensional(seed, n, delta):
    """The direction is (3, 4), whose length is 5."""
    rng = np.random.default_rng(seed)
    t, weights = rng.integers(-20, 20, size=n), rng.integers(1, 4, size=n)
    (expected,) = exact.soft_coordinate_median(t[:, None], weights, delta / 5).astype(float)
    result = exact.geometric_median(t[:, None] * [3.0, 4.0] + 7, weights, delta)
    np.testing.assert_allclose(
        result.w.astype(float), [3 * expected + 7, 4 * expected + 7], atol=1e-12
    )


def test_floats_become_exact_integers():
    values = [0.1, 1e-320, -1e300, np.float32(0.1)]
    assert [Fraction(i, exact.UNIT) for i in exact.integers(values)] == [
        Fraction(float(v)) for v in values
    ]
