"""A W of which a few rows change at a time: its aggregate is that of W as it is."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplus as fp
import references
from federations import assert_near, federations
from fedplus import L1, L2, Blocks, Moreau, Quadratic, _checkpoint, models, presets
from fedplus.aggregation import Change, native
from fedplus.simulation import Trace, setup

N, D, K = 300, 21, 7
EACH = np.ones(N)
LAYOUT = (("a", 9), ("b", 12))
"""Fixed, so that nothing is compiled twice."""


@partial(jax.jit, static_argnames="kind")
def followed(kind, delta, w_local, start, memory, change):
    with native.using(least=0):
        return moreau(kind, delta).follow(w_local, start, memory, change)


def moreau(kind, delta):
    psi = {
        "L1": lambda: L1(delta), "L2": lambda: L2(delta),
        "Blocks": lambda: Blocks({"a": L1(delta), "b": L2(delta)}, LAYOUT),
        "springs": lambda: Blocks({"a": L1(delta), "b": Quadratic(delta)}, LAYOUT),
    }[kind]()  # fmt: skip
    return Moreau(psi)


def blank(kind, w):
    with native.using(least=0):
        return moreau(kind, 1.0).memory(jnp.asarray(w), N)


def expected(kind, delta, w_local):
    """By other means, in float64."""
    exact = w_local.astype(np.float64)

    def medians(columns):
        return [references.soft_median(column, EACH, delta) for column in columns.T]

    if kind == "L1":
        return np.array(medians(exact))
    if kind == "L2":
        return references.soft_geometric_median(exact, EACH, delta)
    a, b = exact[:, :9], exact[:, 9:]
    rest = b.mean(0) if kind == "springs" else references.soft_geometric_median(b, EACH, delta)
    return np.concatenate([medians(a), rest])


@st.composite
def changes(draw):
    """A first W, and what becomes of a few rows each time."""
    w_local, _ = draw(federations((N, D)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        w_local[:] = w_local[0]  # As before the first round.
    steps, before = [], None
    for _ in range(draw(st.integers(1, 6))):
        rows = rng.permutation(N)[:K]
        kind = draw(st.sampled_from(["little", "much", "far", "lost", "tie", "stay", "return"]))
        size = {"little": 1e-3, "much": 1.0, "far": 1e5, "lost": 1e15}.get(kind, 0.0)
        now = w_local[rows] + (size * rng.normal(size=(K, D))).astype(np.float32)
        if kind == "tie":
            now = w_local[rng.permutation(N)[:K]]
        if kind == "return" and steps:
            rows, now = steps[-1][0], before
        before = w_local[rows].copy()
        w_local = w_local.copy()
        w_local[rows] = now
        steps.append((rows, before, w_local))
    return steps


@pytest.mark.parametrize("kind", ["L1", "L2", "Blocks", "springs"])
@given(steps=changes(), delta=st.sampled_from([1e-3, 0.1, 1.0]))
@settings(max_examples=15)
def test_it_is_the_aggregate_of_what_there_is(kind, steps, delta):
    if kind != "L2":
        pytest.importorskip("numba")
    first = steps[0][2].copy()
    first[steps[0][0]] = steps[0][1]
    w = jnp.asarray(np.median(first, axis=0))
    memory = blank(kind, w)
    for rows, before, w_local in steps:
        change = Change(jnp.asarray(rows), jnp.asarray(before))
        found, memory = followed(kind, delta, jnp.asarray(w_local), w, memory, change)
        w = found.w
        assert found.converged
        if kind in ("L1", "springs"):
            assert_near(found.w, expected(kind, delta, w_local), w_local)
    assert_near(found.w, expected(kind, delta, w_local), w_local)


def drifting(rounds, size, kind, delta, d=1500):
    """Rows of one W, a few at a time, each a little further on; what each aggregation took."""
    rng = np.random.default_rng(0)
    w_local = rng.normal(size=(N, d)).astype(np.float32) + rng.normal(size=(N, 1)) @ np.ones((1, d))
    w_local = w_local.astype(np.float32)
    w, took = jnp.zeros(d), []
    memory = blank(kind, w)
    for _ in range(rounds):
        rows = rng.permutation(N)[:K]
        before = w_local[rows].copy()
        w_local[rows] += (size * rng.normal(size=(K, d))).astype(np.float32)
        change = Change(jnp.asarray(rows), jnp.asarray(before))
        found, memory = followed(kind, delta, jnp.array(w_local), w, memory, change)
        w = found.w
        took.append(int(found.iterations))
    return took, found, memory, w_local


def test_one_pass_is_enough_for_a_geometric_median_that_hardly_moves():
    took, *_ = drifting(8, 1e-3, "L2", 0.1)
    assert took[0] > 1
    assert took[3:] == [1] * 5


@pytest.mark.parametrize("delta", [1e-3, 0.1, 3.0])
def test_few_columns_are_looked_at_again(delta):
    pytest.importorskip("numba")
    _, _, before, _ = drifting(1, 1e-3, "L1", delta)
    _, found, after, w_local = drifting(9, 1e-3, "L1", delta)
    low_before, low = np.asarray(before.edges)[0], np.asarray(after.edges)[0]
    assert np.mean(low == low_before) > 0.8  # Their intervals are those of the first round.
    each = [references.soft_median(c, EACH, delta) for c in w_local[:, :20].astype(float).T]
    np.testing.assert_allclose(found.w[:20], each, rtol=1e-5, atol=1e-6)


def test_little_is_remembered_where_lists_would_be_as_long_as_columns():
    with native.using(least=0):
        assert Moreau(L1(0.1)).memory(jnp.zeros(5), 100) == ()
    assert fp.Mean().memory(jnp.zeros(5), N) == ()


AGGREGATORS = {
    "L1": (Moreau(L1(0.1)), lambda w: expected("L1", 0.1, w)),
    "L2": (Moreau(L2(0.1)), lambda w: expected("L2", 0.1, w)),
    "Blocks": (moreau("Blocks", 0.1), lambda w: expected("Blocks", 0.1, w)),
    "coordinate median": (fp.CoordinateMedian(), lambda w: np.median(w.astype(float), axis=0)),
    "geometric median": (
        fp.GeometricMedian(),
        lambda w: references.soft_geometric_median(w.astype(float), EACH, 1e-9),
    ),
    "mean": (fp.Mean(), lambda w: w.astype(float).mean(0)),
}


@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.parametrize("numba", ["auto", "always"])
@given(steps=changes())
@settings(max_examples=6)
def test_followed_is_the_aggregate_of_what_there_is(name, numba, steps):
    """By loops alone, and by JAX."""
    aggregator, reference = AGGREGATORS[name]
    first = steps[0][2].copy()
    first[steps[0][0]] = steps[0][1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native.switch, "asked", lambda: numba)
        followed = fp.Followed(aggregator, first)
        for rows, _, w_local in steps:
            found = followed.update(rows, w_local[rows])
            assert found is followed.aggregate
            assert found.converged
    np.testing.assert_array_equal(followed.w_local, w_local)
    assert_near(found.w, reference(w_local), w_local)


@pytest.mark.parametrize("name", ["L1", "L2", "coordinate median", "mean"])
@pytest.mark.parametrize("d", [20, 400])
def test_followed_gives_the_kind_it_was_given(name, d):
    """By JAX and by loops; and nobody can write to what the next one begins with."""
    w_local = np.random.default_rng(0).normal(size=(60, d)).astype(np.float32)
    mine = fp.Followed(AGGREGATORS[name][0], w_local)
    others = fp.Followed(AGGREGATORS[name][0], jnp.asarray(w_local))
    for _ in range(2):
        found, other = mine.update([3], w_local[:1]), others.update([3], w_local[:1])
        assert isinstance(found.w, np.ndarray)
        assert isinstance(other.w, jax.Array)
        np.testing.assert_allclose(found.w, other.w, atol=1e-6)
        with pytest.raises(ValueError, match="read-only"):
            found.w[:] = np.nan


def test_followed_medians_are_exact_however_they_move():
    rng = np.random.default_rng(2)
    w_local = np.round(rng.normal(size=(N, 70)), 2).astype(np.float32)
    followed = fp.Followed(fp.CoordinateMedian(), w_local)
    for size in (0.01, 0.3, 3.0, 1e6, 0.3):
        rows = rng.permutation(N)[: rng.integers(0, 40)]
        w_local[rows] += np.round(size * rng.normal(size=(len(rows), 70)), 2).astype(np.float32)
        found = followed.update(rows, w_local[rows])
        np.testing.assert_allclose(found.w, np.median(w_local, axis=0), rtol=2e-7)


@pytest.mark.parametrize(("rows", "models", "told"), [
    ([0, 0], np.zeros((2, 3)), "rows must be distinct, from 0 to 3"),
    ([4], np.zeros((1, 3)), "rows must be distinct, from 0 to 3"),
    ([0.5], np.zeros((1, 3)), "rows must be a vector of indices"),
    ([1], np.zeros((1, 2)), r"models must be of shape \(1, 3\)"),
    ([1], [[0.0, np.nan, 1.0]], "models must be finite"),
    ([1], [[0.0, 1e300, 1.0]], "models must be finite"),
])  # fmt: skip
def test_what_does_not_fit_changes_nothing(rows, models, told):
    w_local = np.arange(12, dtype=np.float32).reshape(4, 3)
    followed = fp.Followed(fp.GeometricMedian(), w_local)
    before = followed.aggregate
    with pytest.raises(fp.SettingError, match=told):
        followed.update(rows, models)
    assert followed.aggregate is before
    np.testing.assert_array_equal(followed.w_local, w_local)


def test_only_an_aggregator_follows():
    with pytest.raises(fp.SettingError, match="aggregator must be an aggregator"):
        fp.Followed(np.mean, np.zeros((2, 2)))


MODEL = models.logistic(30, 4)
LAYERS = models.ravel(MODEL.init(jax.random.key(0))).layout
METHODS = {
    "fedavg+": presets.fedavg_plus(eta=0.1, sigma=1.0, delta=0.03),
    "fedgeomed+": presets.fedgeomed_plus(eta=0.1, sigma=1.0, delta=0.03),
    "fedcomed+": presets.fedcomed_plus(eta=0.1, sigma=1.0, delta=0.03),
    "hybrid": presets.hybrid({"bias": L1(0.02), "*": L2(0.05)}, LAYERS, eta=0.1, sigma=1.0),
}
every_method = pytest.mark.parametrize("name", METHODS)
AWAY = np.arange(6)[:, None] % 3 == np.arange(320) % 3


def simulated(name, **more):
    """A run of which compiled loops, where there are any, aggregate all of 320 models."""
    rng = np.random.default_rng(1)
    parties = [(rng.standard_normal((6, 30)), rng.integers(0, 4, 6)) for _ in range(320)]
    asked = {"rounds": 24, "cohort": 9, "steps": 2, "batch_size": 3, "progress": False} | more
    with native.using(least=0):
        return fp.simulate(
            METHODS[name], fp.Federation.from_arrays(parties, parties), MODEL, **asked
        )


def remembers(folder):
    arrays = _checkpoint.load(_checkpoint.newest(folder)).arrays
    return any(name.startswith("state/memory") for name in arrays)


@every_method
def test_a_run_is_the_same_as_one_that_remembers_nothing(name, monkeypatch, tmp_path):
    asked = {"cohort": Trace(~AWAY, 9)}
    found = simulated(name, **asked, checkpoint=tmp_path / "found")
    assert remembers(tmp_path / "found") == (
        name in ("fedgeomed+", "hybrid") or native.switch.installed()
    )
    monkeypatch.setattr(setup, "FEW", 0)
    plain = simulated(name, **asked, checkpoint=tmp_path / "plain")
    assert not remembers(tmp_path / "plain")
    np.testing.assert_allclose(found.models, plain.models, rtol=0, atol=2e-6)
    np.testing.assert_allclose(found.w_global, plain.w_global, rtol=0, atol=1e-6)
    assert found.figures["converged"].all()


@every_method
def test_a_run_goes_on_with_what_it_remembers(name, tmp_path):
    whole = simulated(name)
    for rounds in (11, 24):
        parts = simulated(name, rounds=rounds, checkpoint=tmp_path, resume=True)
    jax.tree.map(np.testing.assert_array_equal, parts.state, whole.state)
    assert isinstance(whole.state, fp.State)  # Without what would mislead, were W another.


@every_method
def test_a_checkpoint_of_a_run_that_remembered_nothing_will_do(name, tmp_path, monkeypatch):
    with monkeypatch.context() as without:
        without.setattr(setup, "FEW", 0)
        simulated(name, rounds=11, checkpoint=tmp_path)
    found = simulated(name, checkpoint=tmp_path, resume=True)
    np.testing.assert_allclose(found.w_global, simulated(name).w_global, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["fedgeomed+", "fedcomed+"])
def test_each_of_several_runs_remembers_its_own(name):
    method = {"fedgeomed+": presets.fedgeomed_plus, "fedcomed+": presets.fedcomed_plus}[name]
    several = [method(eta=0.1, sigma=1.0, delta=delta) for delta in (0.01, 0.03)]
    rng = np.random.default_rng(1)
    parties = [(rng.standard_normal((6, 30)), rng.integers(0, 4, 6)) for _ in range(320)]
    with native.using(least=0):
        found = fp.sweep(
            several, fp.Federation.from_arrays(parties, parties), MODEL, seeds=(0, 1), rounds=24,
            cohort=9, steps=2, batch_size=3, progress=False,
        )  # fmt: skip
    alone = simulated(name)
    np.testing.assert_allclose(found[2].w_global, alone.w_global, rtol=0, atol=1e-6)
    assert np.abs(found[0].w_global - alone.w_global).max() > 1e-5


@pytest.mark.parametrize("more", [{"weights": "size"}, {"cohort": 100}])
def test_nothing_is_remembered_where_more_than_a_few_rows_may_differ(more, tmp_path):
    simulated("fedgeomed+", rounds=2, checkpoint=tmp_path, **more)
    assert not remembers(tmp_path)
