"""Every aggregator against independent solvers, the paper's recursion, and what it promises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplus as fp
import references
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
from fedplus.aggregation.recursion import moves

SHAPES = [(1, 3), (2, 1), (4, 5), (10, 33), (65, 6), (300, 4)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[1]}")
some_shapes = pytest.mark.parametrize("shape", [(4, 5), (40, 6)], ids=lambda s: f"{s[0]}x{s[1]}")


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


@every_shape
@given(data=st.data())
@settings(max_examples=10)
def test_mean(shape, data):
    models, weights = data.draw(federations(shape))
    exact, each = as_float64(models, weights)
    expected = np.average(exact, axis=0, weights=each)
    size = np.abs(exact).max()
    for psi in (Zero(), Anchor(), Quadratic(0.1)):
        assert np.allclose(Moreau(psi)(models, weights).w, expected, rtol=1e-5, atol=1e-6 * size)
    assert np.allclose(Mean()(models, weights).w, expected, rtol=1e-5, atol=1e-6 * size)


@every_shape
@given(data=st.data())
@settings(max_examples=25)
def test_coordinate_median_is_exact(shape, data):
    models, weights = data.draw(federations(shape))
    exact, each = as_float64(models, weights)
    expected = [references.weighted_median(column, each) for column in exact.T]
    found = CoordinateMedian()(models, weights)
    assert found.converged
    assert np.allclose(found.w, expected, rtol=3e-7, atol=1e-30)


@every_shape
@given(data=st.data(), delta=deltas)
@settings(max_examples=25)
def test_soft_coordinate_median(shape, data, delta):
    models, weights = data.draw(federations(shape))
    exact, each = as_float64(models, weights)
    delta = float(np.float32(delta))
    expected = np.array([references.soft_median(column, each, delta) for column in exact.T])
    found = Moreau(L1(delta))(models, weights)
    assert found.converged
    size = references.spread(exact[each > 0], expected) + delta
    assert np.linalg.norm(found.w - expected) <= 1e-5 * size


@every_shape
@given(data=st.data(), delta=deltas)
@settings(max_examples=15)
def test_soft_geometric_median(shape, data, delta):
    """By SciPy's root where it is one, and by the balance of pulls always."""
    models, weights = data.draw(federations(shape))
    exact, each = as_float64(models, weights)
    found = Moreau(L2(delta))(models, weights)
    assert found.converged
    expected = references.soft_geometric_median(exact, each, delta)
    heights = [height(exact, each, w, delta) for w in (np.asarray(found.w, np.float64), expected)]
    assert heights[0] <= heights[1] * (1 + 1e-6) + 1e-12
    if conditioned(exact, each, expected, delta):
        assert_near(found.w, expected, exact[each > 0])


@every_shape
@given(data=st.data())
@settings(max_examples=15)
def test_geometric_median(shape, data):
    """No point of a δ-median, for small δ, nor any party, is lower in the sum of distances."""
    models, weights = data.draw(federations(shape))
    exact, each = as_float64(models, weights)
    found = GeometricMedian()(models, weights)
    assert found.converged
    w = np.asarray(found.w, np.float64)
    nearest = references.soft_geometric_median(exact, each, 1e-7 * references.spread(exact, w))
    others = [nearest, *exact[each > 0]]
    lowest = min(height(exact, each, other, 0) for other in others)
    assert height(exact, each, w, 0) <= lowest * (1 + 1e-5)


def height(models, weights, w, delta):
    r = np.linalg.norm(models - w, axis=1)
    envelope = np.where(r > delta, r - delta / 2, r**2 / (2 * delta) if delta else r)
    return np.sum(weights * envelope)


def conditioned(models, weights, w, delta):
    """Whether the sum of pulls changes at a fair rate in every direction away from w."""
    x = models - w
    r = np.linalg.norm(x, axis=1)
    share = weights / np.maximum(r, delta)
    along = np.where(r > delta, share / np.maximum(r, delta) ** 2, 0)
    hessian = np.sum(share) * np.eye(x.shape[1]) - (along[:, None] * x).T @ x
    return np.linalg.eigvalsh(hessian)[0] > 0.02 * np.sum(share)


def unique(models):
    """Whether the parties do not all lie on one line, on which an interval may minimise."""
    return np.linalg.matrix_rank(models - models[0], tol=1e-3) > 1


@pytest.mark.usefixtures("x64")
@some_shapes
@given(data=st.data(), delta=st.sampled_from([0.1, 0.5, 3.0]))
@settings(max_examples=4)
@pytest.mark.parametrize("make", [L1, L2, "blocks", "custom"])
def test_the_papers_recursion_ends_at_the_same_point(shape, make, data, delta):
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
    slow = Recursion(psi, tolerance=1e-9, most=300_000)(models, weights)
    fast = Moreau(psi)(models, weights)
    assert slow.converged
    assert fast.converged
    if make is L1 or unique(models):
        assert_near(fast.w, slow.w, models)
    residual = np.linalg.norm(
        moves(psi, models, np.ones(n) if weights is None else weights, fast.w)[0]
    )
    assert np.isclose(fast.residual, residual, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_where_the_root_is_an_interval_the_point_nearest_the_mean_is_taken():
    models = np.array(
        [[0.0], [1.0], [9.0], [20.0]]
    )  # any w in [1.5, 8.5] balances; the mean is 7.5
    assert np.isclose(Moreau(L1(0.5))(models).w, 7.5)
    models[3] = 40.0  # mean 12.5
    assert np.isclose(Moreau(L1(0.5))(models).w, 8.5)
    assert np.isclose(Recursion(L1(0.5), tolerance=1e-12)(models).w, 8.5)
    assert np.isclose(Moreau(L2(0.5))(models).w, 8.5)


EVERY = {
    "mean": Mean(),
    "coordinate median": CoordinateMedian(),
    "geometric median": GeometricMedian(),
    "l1": Moreau(L1(0.1)),
    "l2": Moreau(L2(0.1)),
    "blocks": Moreau(Blocks({"a": L1(0.1), "*": L2(0.2)}, (("c", 2), ("a", 3), ("d", 1)))),
    "custom": Moreau(Custom(L1(0.1).value, L1(0.1).prox)),
    "recursion": Recursion(L2(0.1)),
}
every_aggregator = pytest.mark.parametrize("aggregate", EVERY.values(), ids=EVERY.keys())


def models_of(n=9, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@every_aggregator
def test_a_party_of_weight_k_counts_as_k_parties(aggregate):
    models = models_of()
    weights = np.array([1, 2, 1, 0, 1, 3, 1, 1, 1])
    expected = aggregate(np.repeat(models, weights, axis=0)).w
    assert np.allclose(aggregate(models, weights).w, expected, atol=1e-5)


@every_aggregator
def test_a_party_of_weight_zero_may_hold_anything(aggregate):
    models = models_of()
    weights = np.ones(9)
    weights[4] = 0
    expected = aggregate(np.delete(models, 4, axis=0)).w
    for junk in (np.nan, np.inf, -np.inf, 1e30):
        models[4] = junk
        assert np.allclose(aggregate(models, weights).w, expected, atol=1e-5)


@every_aggregator
def test_order_shift_and_scale_of_weights_do_not_matter(aggregate):
    models = models_of()
    w = aggregate(models).w
    assert np.allclose(aggregate(models[::-1]).w, w, atol=1e-5)
    assert np.allclose(aggregate(models + 3).w, w + 3, atol=1e-5)
    assert np.allclose(aggregate(models, np.full(9, 7.0)).w, w, atol=1e-5)


@every_aggregator
@pytest.mark.parametrize("n", [1, 5, 80])
def test_equal_parties_agree_on_their_model(aggregate, n):
    model = models_of(1)
    assert np.allclose(aggregate(np.tile(model, (n, 1))).w, model[0], atol=1e-6)


@pytest.mark.parametrize("aggregate", list(EVERY.values())[:-2], ids=list(EVERY)[:-2])
@pytest.mark.parametrize("n", [9, 90])
def test_a_start_changes_nothing_but_the_work(aggregate, n):
    models = models_of(n)
    w = aggregate(models).w
    for start in (w, w + 0.01, np.zeros(6), models[3], np.full(6, 1e4)):
        again = aggregate(models, start=start)
        assert again.converged
        assert np.allclose(again.w, w, atol=1e-5)


def test_a_median_of_zero_is_found_from_above():
    """Next below 0 comes a subnormal number, which XLA takes for 0."""
    found = CoordinateMedian()([[0.0], [0.0], [0.0], [-1.0], [-2.0]], start=[0.0])
    assert found.converged
    assert found.w == 0


@pytest.mark.parametrize("n", [500])
@pytest.mark.parametrize("aggregate", [CoordinateMedian(), Moreau(L1(0.05)), Moreau(L2(0.1))])
def test_last_rounds_result_saves_passes(aggregate, n):
    models = models_of(n, 40)
    before = aggregate(models)
    models[:5] += 0.01
    cold, warm = aggregate(models), aggregate(models, start=before.w)
    assert warm.iterations < cold.iterations
    assert np.allclose(cold.w, warm.w, atol=1e-5)


@every_aggregator
def test_runs_under_jit_and_vmap(aggregate):
    stacks = np.stack([models_of(seed=s) for s in range(3)])
    each = [aggregate(models).w for models in stacks]
    together = jax.jit(lambda a, stacks: jax.vmap(lambda m: a(m).w)(stacks))(aggregate, stacks)
    assert np.allclose(together, each, atol=1e-5)


def test_several_deltas_at_once():
    models = models_of()
    at_once = jax.vmap(lambda delta: Moreau(L1(delta))(models).w)(jnp.array([0.01, 0.1, 1.0]))
    assert np.allclose(at_once, [Moreau(L1(d))(models).w for d in (0.01, 0.1, 1.0)], atol=1e-6)


@pytest.mark.parametrize("n", [11, 101])
@pytest.mark.parametrize(
    "aggregate", [CoordinateMedian(), GeometricMedian(), Moreau(L1(0.1)), Moreau(L2(0.1))]
)
def test_breakdown_takes_half(aggregate, n):
    """With fewer than half arbitrarily far the medians stay bounded; the mean does not."""
    models = models_of(n)
    far = (n - 1) // 2
    bound = (
        10 * np.sqrt(6) * n
    )  # Of the order of the honest parties' spread, whatever the distance.
    for distance in (1e2, 1e4, 1e6):
        models[:far] = distance
        assert np.linalg.norm(aggregate(models).w) < bound
        assert np.linalg.norm(Mean()(models).w) > 0.4 * distance


def test_non_convergence_is_a_value():
    models = models_of()
    models[0] = 1e4
    given_up = Recursion(L1(0.001), most=10)(models)
    assert not given_up.converged
    assert given_up.iterations == 10
    assert given_up.residual > 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Mean()(np.zeros((0, 3))), ["w_local", "non-empty", "(0, 3)"]),
        (lambda: Mean()(np.zeros(3)), ["w_local", "(N, d)", "(3,)"]),
        (lambda: Mean()(np.full((3, 2), np.nan)), ["w_local", "finite", "3 of 3 rows", "weight 0"]),
        (lambda: CoordinateMedian()([[1.0], [np.inf], [2.0]]), ["1 of 3 rows (1)"]),
        (lambda: Mean()(np.ones((3, 2)), weights=np.ones(2)), ["weights", "(3,)", "(2,)"]),
        (lambda: Mean()(np.ones((2, 2)), weights=[1, -1]), ["weights", "not negative"]),
        (lambda: Mean()(np.ones((2, 2)), weights=[0, 0]), ["weights", "not all 0"]),
        (lambda: Moreau(L2(0.1))(np.ones((2, 2)), start=np.ones(3)), ["start", "(2,)", "(3,)"]),
        (lambda: Moreau(L2(0.1))(np.ones((2, 2)), start=[np.nan, 0]), ["start", "finite"]),
        (lambda: Moreau(0.1), ["Moreau.psi", "0.1", "L2(0.1)"]),
        (lambda: Recursion(L1(0.1), tolerance=0), ["Recursion.tolerance", "> 0"]),
    ],
)
def test_bad_input_is_told_in_one_line(call, words):
    with pytest.raises(fp.SettingError) as error:
        call()
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in words), str(error.value)
