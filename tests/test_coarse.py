"""Aggregates that follow without a look at W: bytes tell a geometric median, a sum the mean."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplus as fp
import references
from federations import assert_near
from fedplus import L2, Moreau
from fedplus.aggregation import Change, native

pytest.importorskip("numba")

from fedplus.aggregation.native import coarse, turns
from fedplus.aggregation.native.layout import DELTA, IMAGE, MODELS, NUMBERS, SLOPE, SQUARE, W

N, D, K = 120, 900, 5
EACH = np.ones(N)
AGGREGATORS = {"mean": fp.Mean(), "L2": Moreau(L2(0.1)), "geometric median": fp.GeometricMedian()}
REFERENCES = {
    "mean": lambda w: w.mean(0),
    "L2": lambda w: references.soft_geometric_median(w, EACH, 0.1),
    "geometric median": lambda w: references.soft_geometric_median(w, EACH, 1e-9),
}


@partial(jax.jit, static_argnames="name")
def followed(name, w_local, start, memory, change):
    with native.using(least=0):
        return AGGREGATORS[name].follow(w_local, start, memory, change)


def moved(rng, w_local, size):
    """A few rows a little further on: which, and what they were."""
    rows = rng.permutation(N)[:K]
    before = w_local[rows].copy()
    w_local[rows] += (size * rng.normal(size=(K, w_local.shape[1]))).astype(np.float32)
    return rows, Change(jnp.asarray(rows), jnp.asarray(before))


@pytest.mark.parametrize("name", AGGREGATORS)
def test_rows_that_stay_as_they_are_are_not_read(name):
    rng = np.random.default_rng(0)
    w_local = rng.normal(size=(N, D)).astype(np.float32)
    w = jnp.zeros(D)
    with native.using(least=0):
        memory = AGGREGATORS[name].memory(w, N)
    for t in range(8):
        rows, change = moved(rng, w_local, 0.01)
        shown = w_local.copy()
        if t > 2:
            shown[np.delete(np.arange(N), rows)] = np.nan
        found, memory = followed(name, jnp.asarray(shown), w, memory, change)
        w = found.w
        assert found.converged
    assert_near(w, REFERENCES[name](w_local.astype(float)), w_local)


@pytest.mark.parametrize("name", ["L2", "geometric median"])
def test_far_from_where_pulls_are_known_w_itself_is_read_again(name):
    rng = np.random.default_rng(1)
    w_local = rng.normal(size=(N, D)).astype(np.float32)
    w, points = jnp.zeros(D), []
    with native.using(least=0):
        memory = AGGREGATORS[name].memory(w, N)
    for _ in range(60):
        _, change = moved(rng, w_local, 0.2)
        found, memory = followed(name, jnp.asarray(w_local), w, memory, change)
        w = found.w
        points.append(np.array(memory.coarse.at))
        assert found.converged
    times = sum(bool((a != b).any()) for a, b in itertools.pairwise(points))
    assert 0 < times < 30
    assert_near(w, REFERENCES[name](w_local.astype(float)), w_local)


def pulls(w_local, w, delta):
    away = w_local.astype(float) - w.astype(float)
    return (away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), delta)).sum(0)


@given(
    seed=st.integers(0, 2**32 - 1), d=st.sampled_from([2, 60, 5000]),
    alike=st.booleans(), far=st.booleans(), length=st.sampled_from([1e-4, 1e-2, 0.1]),
    delta=st.sampled_from([1e-3, 0.3, 3.0]),
)  # fmt: skip
@settings(max_examples=60)
def test_bytes_tell_pulls_within_the_bound(seed, d, alike, far, length, delta):
    """At a step from where they are known, of rows that may all be the same, too."""
    rng = np.random.default_rng(seed)
    w_local = rng.normal(size=(N, d)).astype(np.float32)
    if alike:
        w_local[: N // 2] = w_local[0]
    if far:
        w_local[-9:] *= np.float32(1e5)
    at = (0.1 * rng.normal(size=d)).astype(np.float32)
    centre = (at + 0.1 * rng.normal(size=d)).astype(np.float32)
    entries, units = np.empty((N, d), np.int8), np.empty((2, N), np.float32)
    for k in range(N):
        units[:, k] = coarse.put_coarse(w_local[k], centre, k, entries[k])
        off = w_local[k].astype(float) - centre - units[0, k] * entries[k].astype(float)
        assert np.linalg.norm(off) <= 1.01 * units[1, k] + 1e-6 * np.linalg.norm(w_local[k])
    r = np.linalg.norm(w_local.astype(float) - at, axis=1).astype(np.float32)
    pull = pulls(w_local, at, delta).astype(np.float32)
    models, numbers = np.empty((MODELS, d), np.float32), np.empty(NUMBERS, np.float32)
    step = rng.normal(size=d)
    models[W] = at + length * np.median(r) * step / np.linalg.norm(step)
    told = np.array([coarse.ALL, 0, 0], np.float32)
    turns.begin(told, np.float32(delta), at, centre, models, numbers)
    part, looked = np.array([0, N, 1, 0, 0], np.int32), np.empty((1, N + d), np.float32)
    coarse.look(w_local, entries, units, r, models, numbers, part, looked)
    r_now = looked[0, :N]
    slope = turns.put_image(
        looked, numbers[DELTA], False, r_now, at, r, pull, centre, models
    )  # fmt: skip
    found = float(slope) * (models[IMAGE].astype(float) - models[W])
    bound = turns.roundings(numbers[DELTA], r, r_now, units, np.sqrt(numbers[SQUARE]))
    rounding = 8 * 1.2e-7 * (slope * np.linalg.norm(models[W]) + N)
    assert np.linalg.norm(found - pulls(w_local, models[W], delta)) <= bound + rounding
    assert numbers[SLOPE] == 0  # No turn was taken.


@pytest.mark.parametrize("size", [1.0, 1e7, 1e15])
@pytest.mark.parametrize("at_hand", [True, False])
def test_what_came_and_went_leaves_nothing_in_a_mean(size, at_hand, monkeypatch):
    monkeypatch.setattr(native.switch, "asked", lambda: "always")
    rng = np.random.default_rng(2)
    w_local = rng.normal(size=(N, 40)).astype(np.float32)
    if not at_hand:
        monkeypatch.setattr(native, "in_memory", lambda *_: None)
    following = fp.Followed(fp.Mean(), w_local)
    for t in range(40):
        rows = rng.permutation(N)[:K]
        now = rng.normal(size=(K, 40)) * (size if t % 5 == 3 else 1.0)
        found = following.update(rows, now)
        if t % 5 == 3:
            following.update(rows, w_local[rows])
        else:
            w_local[rows] = now
            exact = w_local.astype(float).mean(0)
            np.testing.assert_allclose(found.w, exact, rtol=0, atol=4e-7)
            np.testing.assert_array_equal(following.w_local, w_local)


@pytest.mark.parametrize("at_hand", [True, False])
def test_what_one_model_left_in_a_mean_no_other_hides(at_hand, monkeypatch):
    monkeypatch.setattr(native.switch, "asked", lambda: "always")
    if not at_hand:
        monkeypatch.setattr(native, "in_memory", lambda *_: None)
    w_local = np.random.default_rng(3).normal(size=(N, 40)).astype(np.float32)
    following = fp.Followed(fp.Mean(), w_local)
    far, other = w_local[:2].copy()
    far[0], other[1] = 1e20, 1e20
    following.update([0], far[None])
    found = following.update([0, 1], [w_local[0], other])
    np.testing.assert_allclose(found.w[0], w_local[:, 0].astype(float).mean(), atol=4e-7)


def test_a_jump_is_followed():
    """Many rows at once, far: bytes alone cannot tell where that leads."""
    rng = np.random.default_rng(4)
    w_local = rng.normal(size=(N, D)).astype(np.float32)
    following = fp.Followed(Moreau(L2(0.1)), w_local)
    for t in range(12):
        rows = rng.permutation(N)[: 15 if t % 4 == 3 else K]
        now = w_local[rows] + (1.0 if t % 4 == 3 else 0.01) * rng.normal(size=(len(rows), D))
        w_local[rows] = now
        found = following.update(rows, now)
        assert found.converged
        assert following._way._memory.slope > 0  # It has not begun anew.
    assert_near(found.w, REFERENCES["L2"](w_local.astype(float)), w_local)


@pytest.mark.parametrize("parties", [5, 16])
@pytest.mark.parametrize("aggregator", [fp.GeometricMedian(), Moreau(L2(0.1))])
def test_no_party_is_too_far_away_for_a_few(parties, aggregator):
    """Where squares do not fit into 32 bits."""
    w_local = np.random.default_rng(5).normal(size=(parties, 4096)).astype(np.float32)
    w_local[0] = 1e20
    for start in (None, w_local[1]):
        found = aggregator(w_local, start=start)
        assert np.abs(found.w).max() < 10
