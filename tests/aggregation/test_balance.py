"""Geometric medians at or beside a party whose weight just about balances the pull of all others."""

import criteria
import exact
import hypothesis
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplus import L2, GeometricMedian, Moreau

EXCESS = [s * 10.0**-k for k in (1, 2, 3, 4, 6) for s in (1, -1)] + [0.0]
N, D = 9, 6


@st.composite
def balances(draw, dtype):
    """Parties of which one has (1 + excess) times the weight that holds it in balance.

    Padded with parties of weight 0 and columns of zeros, so that one program does for all.
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
    if dtype == np.float64 or kind != "line":  # Far off, rounding bends a line.
        models += draw(st.sampled_from([0.0, 5.0]))
    x = models - models[0]
    r = np.linalg.norm(x, axis=1)
    there = r == 0
    pull = np.linalg.norm((weights[~there] / r[~there]) @ x[~there])
    excess = draw(st.sampled_from(EXCESS))
    weights[0] = max(pull * (1 + excess) - weights[1:][there[1:]].sum(), 0.1)
    order = rng.permutation(n)
    padded, each = np.zeros((N, D), dtype), np.zeros(N, dtype)
    padded[:n, :d], each[:n] = models[order], weights[order]
    return padded, each


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("delta", [0, 1e-4, 0.3])
@given(data=st.data())
@settings(max_examples=25)
def test_a_median_at_or_beside_a_party(dtype, delta, data):
    models, weights = data.draw(balances(dtype))
    with jax.enable_x64(dtype == np.float64):
        found = (Moreau(L2(delta)) if delta else GeometricMedian())(models, weights)
    delta = float(dtype(delta))
    hypothesis.assume(found.converged)
    assert criteria.geometric_objective_error(*exact.weighted(models, weights), delta, found.w) <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("delta", [0, 1e-4, 0.3])
@given(data=st.data())
@settings(max_examples=25)
def test_little_is_left_where_a_median_beside_a_party_is_not_certified(dtype, delta, data):
    """A few are so ill conditioned that no proof is found; the objective is low all the same."""
    models, weights = data.draw(balances(dtype))
    with jax.enable_x64(dtype == np.float64):
        found = (Moreau(L2(delta)) if delta else GeometricMedian())(models, weights)
    exact_models, exact_weights = exact.weighted(models, weights)
    best = exact.geometric_median(exact_models, exact_weights, float(dtype(delta)))
    above = exact.gap(exact_models, exact_weights, float(dtype(delta)), found.w, best.w)
    assert above <= 1e-5 * np.median(exact.distances(exact_models, best.w)) + 1e-6
