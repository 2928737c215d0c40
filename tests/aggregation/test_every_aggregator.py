"""The common suite of all aggregators: weights, starts, jit and vmap, breakdown point, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus import (
    L1,
    L2,
    Blocks,
    CentredClipping,
    CoordinateMedian,
    Custom,
    GeometricMedian,
    Krum,
    Mean,
    Moreau,
    NormClipping,
    Recursion,
    TrimmedMean,
)  # fmt: skip

EVERY = {
    "mean": Mean(),
    "coordinate median": CoordinateMedian(),
    "geometric median": GeometricMedian(),
    "l1": Moreau(L1(0.1)),
    "l2": Moreau(L2(0.1)),
    "blocks": Moreau(Blocks({"a": L1(0.1), "*": L2(0.2)}, (("c", 2), ("a", 3), ("d", 1)))),
    "custom": Moreau(Custom(L1(0.1).value, L1(0.1).prox)),
    "recursion": Recursion(L2(0.1)),
    "trimmed mean": TrimmedMean(0.2),
    "krum": Krum(faulty=2),
    "multi-krum": Krum(faulty=2, keep=4),
    "centred clipping": CentredClipping(2.0, iterations=5),
    "norm clipping": NormClipping(2.0),
}
# Clipping clips distances from its start; a Custom ψ and the recursion stop near the minimiser.
DEPENDENT = ("custom", "recursion", "centred clipping", "norm clipping")
INDEPENDENT = {name: aggregate for name, aggregate in EVERY.items() if name not in DEPENDENT}
# Krum leaves parties of weight 0 out; other weights have no effect.
COUNTED = {name: aggregate for name, aggregate in EVERY.items() if "krum" not in name}
every_aggregator = pytest.mark.parametrize("aggregate", EVERY.values(), ids=EVERY.keys())


def models_of(n=9, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("aggregate", COUNTED.values(), ids=COUNTED.keys())
def test_a_party_of_weight_k_counts_as_k_parties(aggregate):
    models = models_of()
    weights = np.array([1, 2, 1, 0, 1, 3, 1, 1, 1])
    expected = aggregate(np.repeat(models, weights, axis=0)).w
    assert np.allclose(aggregate(models, weights).w, expected, atol=1e-5)


@every_aggregator
def test_a_party_of_weight_zero_may_have_any_entries(aggregate):
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


@pytest.mark.parametrize("aggregate", INDEPENDENT.values(), ids=INDEPENDENT.keys())
@pytest.mark.parametrize("n", [9, 90])
def test_the_result_does_not_depend_on_the_start(aggregate, n):
    models = models_of(n)
    w = aggregate(models).w
    for start in (w, w + 0.01, np.zeros(6), models[3], np.full(6, 1e4)):
        restarted = aggregate(models, start=start)
        assert restarted.converged
        assert np.allclose(restarted.w, w, atol=1e-5)


def test_a_median_of_zero_is_found_from_above():
    """The next number below 0 is subnormal, and XLA treats it as 0."""
    result = CoordinateMedian()([[0.0], [0.0], [0.0], [-1.0], [-2.0]], start=[0.0])
    assert result.converged
    assert result.w == 0


@pytest.mark.parametrize("aggregate", [CoordinateMedian(), Moreau(L1(0.05)), Moreau(L2(0.1))])
def test_the_last_result_as_start_does_not_change_the_result(aggregate):
    models = models_of(500, 40)
    before = aggregate(models)
    models[:5] += 0.01
    cold, warm = aggregate(models), aggregate(models, start=before.w)
    assert np.allclose(cold.w, warm.w, atol=1e-5)


def test_a_start_near_the_geometric_median_saves_passes():
    models = models_of(500, 40)
    far = Moreau(L2(0.1))(models, start=np.full(40, 10.0))
    near = Moreau(L2(0.1))(models, start=far.w)
    assert near.iterations < far.iterations


@every_aggregator
@pytest.mark.parametrize("n", [9, 3000])
def test_results_are_of_the_same_array_type_as_the_models(aggregate, n):
    """NumPy arrays give writable NumPy arrays; JAX arrays give JAX arrays."""
    models = models_of(n)
    result, other = aggregate(models), aggregate(jnp.asarray(models))
    assert isinstance(result.w, np.ndarray)
    assert isinstance(other.w, jax.Array)
    assert all(isinstance(number, np.generic) for number in result[1:])
    np.testing.assert_allclose(result.w, other.w, rtol=1e-6, atol=1e-6)
    result.w[:] = 0
    np.testing.assert_array_equal(aggregate(models, start=np.asarray(other.w)).w.shape, (6,))
    assert isinstance(aggregate(models.tolist()).w, np.ndarray)
    traced = jax.jit(lambda: aggregate(models).w)()
    assert isinstance(traced, jax.Array)
    np.testing.assert_allclose(traced, other.w, atol=1e-6)


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
def test_medians_withstand_almost_half_of_the_parties(aggregate, n):
    """The medians stay bounded, however far these parties are away; the mean does not."""
    models = models_of(n)
    far = (n - 1) // 2
    bound = 10 * np.sqrt(6) * n  # Of the order of the honest parties' spread.
    for distance in (1e2, 1e4, 1e6):
        models[:far] = distance
        assert np.linalg.norm(aggregate(models).w) < bound
        assert np.linalg.norm(Mean()(models).w) > 0.4 * distance


def test_an_aggregate_that_did_not_converge_says_so():
    models = models_of()
    models[0] = 1e4
    unfinished = Recursion(L1(0.001), max_iterations=10)(models)
    assert not unfinished.converged
    assert unfinished.iterations == 10
    assert unfinished.residual > 0


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
        (lambda: Mean()(np.ones((2, 2)), start=[np.nan, 0]), ["start", "finite"]),
        (lambda: Moreau(0.1), ["Moreau.psi", "0.1", "L2(0.1)"]),
        (lambda: Recursion(L1(0.1), tolerance=0), ["Recursion.tolerance", "> 0"]),
    ],
)
def test_bad_input_is_reported_in_one_line(call, words):
    with pytest.raises(fp.SettingError) as error:
        call()
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in words), str(error.value)
