"""Federations to aggregate, from the plain to the adverse, and how results are compared."""

import numpy as np
import pytest
from hypothesis import strategies as st

import references

SHAPES = [(1, 3), (2, 1), (4, 5), (10, 33), (65, 6), (300, 4)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[1]}")


@st.composite
def federations(draw, shape):
    """Models with outliers up to 10⁶ times the scale, ties, duplicated parties; weights or none."""
    n, d = shape
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    models = rng.normal(size=shape) + draw(st.sampled_from([0.0, 5.0]))
    if draw(st.booleans()):
        models = np.round(models, 1)  # ties
    if draw(st.booleans()):
        models = models[rng.integers(0, n, size=n)]  # duplicated parties
    far = draw(st.integers(0, max(0, (n - 1) // 3)))
    scale = draw(st.sampled_from([10.0, 1e3, 1e6]))
    together = draw(st.booleans())
    models[:far] += scale * (rng.normal(size=d) if together else rng.normal(size=(far, d)))
    kind = draw(st.sampled_from(["none", "counts", "real"]))
    weights = rng.integers(0, 4, size=n) if kind == "counts" else rng.uniform(0.1, 1, size=n)
    weights[:far] = np.minimum(weights[:far], 0.1)  # A minority, by weight too.
    weights[-1] = 1
    order = rng.permutation(n)
    weights = None if kind == "none" else weights[order].astype(np.float32)
    return models[order].astype(np.float32), weights


deltas = st.sampled_from([1e-4, 1e-2, 0.1, 1.0, 10.0])


def as_float64(models, weights):
    each = np.ones(len(models)) if weights is None else weights
    return models.astype(np.float64), each.astype(np.float64)


def assert_near(found, expected, models, share=1e-5):
    error = np.linalg.norm(np.asarray(found, np.float64) - expected)
    assert error <= share * references.spread(models, expected)
