"""Random models to aggregate, with outliers, ties and duplicates, and the comparison of results."""

import numpy as np
import pytest
from hypothesis import strategies as st

SHAPES = [(1, 3), (2, 1), (4, 5), (10, 33), (65, 6), (300, 4)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[1]}")


@st.composite
def weighted_models(draw, shape):
    """Draw models with outliers up to 10⁶ times the scale, ties and duplicates; and weights or None."""
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
    weights[:far] = np.minimum(weights[:far], 0.1)  # Outliers are a minority of the weight, too.
    weights[-1] = 1
    order = rng.permutation(n)
    weights = None if kind == "none" else weights[order].astype(np.float32)
    return models[order].astype(np.float32), weights


deltas = st.sampled_from([1e-4, 1e-2, 0.1, 1.0, 10.0])


def assert_near(w, expected, models, tolerance=1e-5):
    """Require that w is near the expected point, relative to its size and to the models' spread."""
    error = np.linalg.norm(np.asarray(w, np.float64) - expected)
    spread = np.median(np.linalg.norm(models - expected, axis=1))
    assert error <= tolerance * (np.linalg.norm(expected) + spread)
