"""``converged=True`` guarantees that w is a minimiser, for all W, δ, weights and starts."""

import exact_aggregates as exact
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import relative_errors
from hypothesis import given
from hypothesis import strategies as st

import fedplus as fp

N, D = 12, 3
MANY = (300, 40)
HALF = D // 2 + 1  # The columns of the first block.


def blocks(delta):
    parts = {"first": fp.L1(delta), "rest": fp.L2(delta)}
    return fp.Moreau(fp.Blocks(parts, (("first", HALF), ("rest", D - HALF))))


def blocks_error(models, weights, delta, w):
    first = relative_errors.soft_coordinate_median_error(models[:, :HALF], weights, delta, w[:HALF])
    rest = relative_errors.geometric_median_error(models[:, HALF:], weights, delta, w[HALF:])
    return max(first, rest)


def soft_geometric_error(models, weights, delta, w):
    """Return the error relative to the allowed one; a single coordinate has one documented root."""
    if models.shape[1] == 1:
        return relative_errors.soft_coordinate_median_error(models, weights, delta, w)
    return relative_errors.geometric_median_error(models, weights, delta, w)


AGGREGATORS = {
    "mean": (lambda _: fp.Mean(), lambda m, a, _, w: relative_errors.mean_error(m, a, w)),
    "quadratic": (
        lambda delta: fp.Moreau(fp.Quadratic(delta)),
        lambda m, a, _, w: relative_errors.mean_error(m, a, w),
    ),
    "coordinate median": (
        lambda _: fp.CoordinateMedian(),
        lambda m, a, _, w: relative_errors.coordinate_median_error(m, a, w),
    ),
    "geometric median": (
        lambda _: fp.GeometricMedian(),
        lambda m, a, _, w: relative_errors.geometric_median_error(m, a, 0.0, w),
    ),
    "L1": (lambda delta: fp.Moreau(fp.L1(delta)), relative_errors.soft_coordinate_median_error),
    "L2": (lambda delta: fp.Moreau(fp.L2(delta)), soft_geometric_error),
    "blocks": (blocks, blocks_error),
}
without_blocks = pytest.mark.parametrize("name", [n for n in AGGREGATORS if n != "blocks"])
jitted = jax.jit(lambda aggregator, *args: aggregator(*args))


class Setting:
    """The dtype, the shape and the optional arguments of calls, which share one compiled program."""

    def __init__(self, dtype, *, weighted, started, shape=(N, D), calls=("numpy", "jax")):
        self.dtype, self.shape, self.calls = dtype, shape, calls
        self.weighted, self.started = weighted, started

    def aggregate(self, call, aggregator, models, weights, start):
        """Return the aggregate, or None if the aggregator rejects the numbers."""
        with jax.enable_x64(self.dtype == np.float64):
            if call == "float64":  # NumPy's default dtype, which JAX makes float32.
                models = models.astype(np.float64)
            args = (models, weights, start)
            if call in ("jax", "jit"):
                args = [None if arg is None else jnp.asarray(arg) for arg in args]
            try:
                return jitted(aggregator, *args) if call == "jit" else aggregator(*args)
            except fp.SettingError:
                return None


ALL = Setting(np.float32, weighted=True, started=True, calls=("numpy", "jax", "float64"))
NONE = Setting(np.float64, weighted=False, started=False)
SETTINGS = {
    "float32": ALL,
    "float64": NONE,
    "jit": Setting(np.float32, weighted=False, started=True, calls=["jit"]),
    "column": Setting(np.float64, weighted=True, started=True, shape=(N, 1), calls=["jit"]),
}
LARGE = Setting(np.float32, weighted=False, started=False, shape=MANY)

scales = st.sampled_from([1.0, 0.01, 1e3, 1e-4, 1e6, 1e-12, 1e12, 1e-18, 1e18, 1e-30, 1e30])
ratios = st.sampled_from(
    [0.1, 1.0, 0.5, 2.0, 10.0, 1e-3, 1e3, 1e5, 1e7, 1e-5, 1e-8, 1e12, 1e-15, 1e20, 1e-30, 1e30]
)
KINDS = [
    "any", "ties", "duplicates", "one majority", "line", "nearly a line", "exactly delta apart",
    "within rounding", "opposite outliers", "magnitudes",
]  # fmt: skip


def models_of(kind, rng, shape, delta, eps):
    """Return models of unit scale, for δ = ``delta``."""
    n, d = shape
    models = rng.normal(size=shape)
    if kind == "ties":
        models = models.round(1)
    elif kind == "duplicates":
        models = models[rng.integers(0, rng.integers(1, n + 1), size=n)]
    elif kind == "one majority":  # Exactly half of them, or one more or less.
        models[: n // 2 + rng.integers(-1, 2)] = models[0]
    elif kind == "line":
        models = rng.integers(-50, 50, size=(n, 1)) * rng.integers(-3, 4, size=d) / 8.0
    elif kind == "nearly a line":
        off = 10.0 ** rng.integers(-9, -1)
        models = rng.normal(size=(n, 1)) * rng.normal(size=d) + off * models
    elif kind == "exactly delta apart":
        models = delta * rng.integers(-2, 3, size=shape)
    elif kind == "within rounding":
        models = models[0] * (1 + eps * rng.integers(-4, 5, size=shape))
    elif kind == "opposite outliers":  # Their gradients cancel, up to rounding.
        far, pairs = 10.0 ** rng.uniform(0, 3) * (1 + delta) * rng.normal(size=d), (n - 1) // 4
        models[:pairs], models[pairs : 2 * pairs] = far, -far
    elif kind == "magnitudes":
        models = models * 10.0 ** rng.uniform(-30, 30, size=(n, 1))
    return models


@st.composite
def problems(draw, setting, kinds=tuple(KINDS)):
    """Draw models, weights or None, a start or None, and δ."""
    n, d = setting.shape
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    info = np.finfo(setting.dtype)
    kind, scale, delta = draw(st.sampled_from(kinds)), draw(scales), draw(ratios)
    models = models_of(kind, rng, setting.shape, min(delta, 1e4), info.eps)
    if kind == "magnitudes":
        scale = 1.0
    elif kind != "opposite outliers":
        models = models + draw(st.sampled_from([0.0, 0.0, 5.0, 1e3]))
        far = draw(st.integers(0, (n - 1) // 2)) if draw(st.booleans()) else 0
        together = draw(st.booleans())
        models[:far] += 1e6 * (rng.normal(size=d) if together else rng.normal(size=(far, d)))
    models = (models[rng.permutation(n)] * scale).astype(setting.dtype)
    delta = _representable(delta * scale, setting.dtype)
    weights = None
    if setting.weighted:
        weights = {
            "equal": np.ones(n),
            "counts": rng.integers(0, 4, size=n),
            "few": np.arange(n) < rng.integers(1, n),
            "real": rng.uniform(0.1, 1, size=n),
            "uneven": 10.0 ** rng.uniform(-8, 0, size=n),
            "half": np.where(np.arange(n) == 0, n - 1, 1),
        }[draw(st.sampled_from(["equal", "counts", "few", "real", "uneven", "half"]))]
        weights = np.where(np.arange(n) == 1, np.maximum(weights, 1), weights)
        weights = weights.astype(setting.dtype)
    start = draw(starts(models, weights, scale)) if setting.started else None
    hypothesis.note(f"{kind}, scale {scale}, δ {delta}, weights {weights}, start {start}")
    return models, weights, start, delta


@st.composite
def starts(draw, models, weights, scale):
    """Draw a start, near the result or far from it."""
    counted, positive = exact.weighted(models, weights)
    mean = np.average(counted.astype(float), axis=0, weights=positive)
    kind = draw(st.sampled_from(["far", "zeros", "mean", "median", "a model", "off"]))
    start = {
        "far": np.full_like(mean, 1e6 * scale),
        "zeros": np.zeros_like(mean),
        "mean": mean,
        "median": np.median(counted, axis=0),
        "a model": counted[-1],
        "off": mean * 1.001,
    }[kind]
    return start.astype(models.dtype)


def _representable(delta, dtype):
    """Return δ rounded to the dtype, unless that is 0 or infinite."""
    info = np.finfo(dtype)
    return float(dtype(delta)) if float(info.tiny) <= delta <= float(info.max) else delta


def is_extreme(models, delta, dtype):
    """Return True if δ, or the square of an entry, is not a normal number of the dtype."""
    info = np.finfo(dtype)
    sizes = np.abs(np.append(models[models != 0].astype(float), 1.0))
    are_normal = max(sizes) < float(info.max) ** 0.5 / 1e3 and min(sizes) > float(info.tiny) ** 0.5
    return not (are_normal and float(info.tiny) < delta < float(info.max))


def error_of(name, result, models, weights, delta):
    """Return the error of a converged result, relative to the allowed error."""
    w = np.asarray(result.w)
    assert np.isfinite(w).all()
    return AGGREGATORS[name][1](*exact.weighted(models, weights), delta, w)


def check(name, setting, call, problem):
    """Require that the result is a minimiser if it has converged."""
    models, weights, start, delta = problem
    result = setting.aggregate(call, AGGREGATORS[name][0](delta), models, weights, start)
    if result is None:
        assert is_extreme(models, delta, setting.dtype)
        return
    if result.converged:
        error = error_of(name, result, models, weights, delta)
        hypothesis.target(min(error, 1e3))
        assert error <= 1


@pytest.mark.parametrize("setting", SETTINGS)
@without_blocks
@given(data=st.data())
@hypothesis.settings(max_examples=30)
def test_converged_means_a_minimiser(name, setting, data):
    problem = data.draw(problems(SETTINGS[setting]))
    check(name, SETTINGS[setting], data.draw(st.sampled_from(SETTINGS[setting].calls)), problem)


@given(problem=problems(ALL))
def test_converged_means_a_minimiser_in_every_block(problem):
    check("blocks", ALL, "numpy", problem)


@without_blocks
@given(problem=problems(LARGE, KINDS[:-1]))  # The reference is slow for the last kind.
@hypothesis.settings(max_examples=8, phases=[hypothesis.Phase.generate, hypothesis.Phase.target])
def test_converged_means_a_minimiser_of_many_models(name, problem):
    check(name, LARGE, "numpy", problem)


@pytest.mark.parametrize("setting", [ALL, NONE], ids=["float32", "float64"])
@without_blocks
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1.0, 1e-4, 0.01, 1e3, 1e6]),
    ratio=st.sampled_from([0.1, 1e-3, 1.0, 10.0, 1e3, 1e7]),
    far=st.sampled_from([0, 10, 1e6]),
    begin=st.sampled_from([0, 1e6, 1, 1.001]),
)
def test_ordinary_models_converge(name, setting, seed, scale, ratio, far, begin):
    """The models lie around a common one, and some of them are outliers."""
    rng = np.random.default_rng(seed)
    models = rng.normal(size=(N, D)) + rng.choice([0, 5])
    models[: rng.integers(0, N // 3)] += far * rng.normal(size=D)
    models = (scale * models).astype(setting.dtype)
    weights = rng.choice([rng.uniform(0.5, 1, size=N), np.ones(N)]).astype(setting.dtype)
    start = (begin * models.mean(axis=0)).astype(setting.dtype)
    if setting is NONE:
        weights = start = None
    delta = _representable(ratio * scale, setting.dtype)
    result = setting.aggregate("numpy", AGGREGATORS[name][0](delta), models, weights, start)
    assert result.converged
    assert error_of(name, result, models, weights, delta) <= 1


@pytest.mark.parametrize(("size", "delta"), [(1.0, 1e7), (0.01, 1e3), (1e-4, 10.0)])
@pytest.mark.parametrize("factor", [0, 1.001, 1e6])
@pytest.mark.parametrize("name", ["L1", "L2"])
def test_a_delta_larger_than_all_distances_gives_the_mean(name, size, delta, factor):
    """The tolerance is relative to the spread of the models, not to δ."""
    models = (size * np.random.default_rng(0).normal(1, 1, size=(N, D))).astype(np.float32)
    mean = models.mean(axis=0)
    make = AGGREGATORS[name][0]
    result = ALL.aggregate("numpy", make(delta), models, np.ones(N), factor * mean)
    assert result.converged
    np.testing.assert_allclose(result.w, mean, atol=1e-5 * size)


def halves(rng, n, d, delta, dtype):
    """Return duplicated rows, half of which lie below a gap of more than 2δ in every coordinate."""
    distinct = rng.integers(1, n // 2 + 1)
    below = -rng.exponential(size=(distinct, d)) * 10.0 ** rng.integers(-2, 3)
    above = 2 * delta + 1e-3 + rng.exponential(size=(distinct, d)) * 10.0 ** rng.integers(-2, 3)
    half = rng.integers(0, distinct, size=n // 2)
    models = np.concatenate([below[half], above[rng.permutation(half)]]) + rng.choice([0, 0.1, 7])
    return models[rng.permutation(n)].astype(dtype)


INTERVALS = {
    "many": LARGE,
    "float64": NONE,
    "column": SETTINGS["column"],
    "two models": Setting(np.float32, weighted=False, started=False, shape=(2, D)),
    "two numbers": Setting(np.float32, weighted=False, started=False, shape=(2, 1)),
}


@pytest.mark.parametrize("case", INTERVALS)
@pytest.mark.parametrize("name", ["coordinate median", "L1", "L2"])
@given(seed=st.integers(0, 2**32 - 1), delta=st.sampled_from([0.1, 0.3, 1e-3, 0.7]))
@hypothesis.settings(max_examples=15)
def test_of_an_interval_of_minimisers_the_documented_point_is_returned(name, case, seed, delta):
    """It is the midpoint for the median, and the point nearest to the mean for the δ-medians."""
    setting = INTERVALS[case]
    (n, d), rng = setting.shape, np.random.default_rng(seed)
    delta = float(setting.dtype(delta))
    models = halves(rng, n, d, delta, setting.dtype)
    if name == "L2" and d > 1:  # Two clusters, in any direction.
        models = models[[models.argmin(axis=0)[0], models.argmax(axis=0)[0]] * (n // 2)]
    weights = np.ones(n, setting.dtype) if setting.weighted else None
    start = rng.choice([0, 1, 1e6]) * models[0] if setting.started else None
    result = setting.aggregate("numpy", AGGREGATORS[name][0](delta), models, weights, start)
    assert result.converged
    if name == "L2" and d > 1:
        best = exact.geometric_median(models, np.ones(n), delta).w.astype(float)
        size = np.abs(models - best).max() + np.abs(best).max()
        np.testing.assert_allclose(result.w, best, rtol=0, atol=1e-5 * size)
    else:
        assert error_of(name, result, models, weights, delta) <= 1


def mutate(rng, setting, models, weights, start, delta):
    """Return a problem near the given one, for a search for wrong results."""
    models, (i, j) = models.copy(), rng.choice(len(models), size=2, replace=False)
    centre = np.median(models, axis=0)
    power = setting.dtype(10.0 ** rng.uniform(-3, 3))
    choice = rng.integers(0, 6)
    if choice == 0:  # Two models are equal up to rounding.
        models[i] = models[j] * (1 + np.finfo(setting.dtype).eps * rng.integers(-2, 3, size=D))
    elif choice == 1:
        models[i] = centre + (models[i] - centre) * power
    elif choice == 2:  # The gradients of two models cancel.
        models[i] = 2 * centre - models[j]
    elif choice == 3:  # A model lies exactly δ from the centre.
        away = models[i] - centre
        models[i] = centre + away * (delta / max(np.linalg.norm(away), delta * 1e-30))
    elif choice == 4 and start is not None:
        start = models[j] if rng.integers(2) else start * setting.dtype(1.001)
    else:
        delta = _representable(float(delta * power), setting.dtype)
    return models.astype(setting.dtype), weights, start, delta


@pytest.mark.parametrize("setting", [ALL, NONE], ids=["float32", "float64"])
@pytest.mark.parametrize("name", ["geometric median", "L1", "L2"])
def test_a_search_for_large_errors_finds_no_converged_result_beyond_the_bound(name, setting):
    """The search climbs towards larger errors of converged results."""
    rng = np.random.default_rng(0)

    def error(problem):
        models, weights, start, delta = problem
        result = setting.aggregate("numpy", AGGREGATORS[name][0](delta), models, weights, start)
        return error_of(name, result, models, weights, delta) if result.converged else 0

    for _ in range(12):
        models = models_of(rng.choice(KINDS[:-1]), rng, (N, D), 0.1, np.finfo(setting.dtype).eps)
        weights = np.ones(N, setting.dtype) if setting.weighted else None
        start = models[0].astype(setting.dtype) if setting.started else None
        best = models.astype(setting.dtype), weights, start, float(setting.dtype(0.1))
        highest = error(best)
        for _ in range(10):
            other = mutate(rng, setting, *best)
            if np.abs(other[0]).max() < 1e12 and 1e-12 < other[3] < 1e12:
                reached = error(other)
                best, highest = (other, reached) if reached >= highest else (best, highest)
            assert highest <= 1
