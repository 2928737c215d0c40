"""The compiled loops: by definition, in shares, in threads, under vmap; and XLA without them."""

import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplus
import references
from command import environment
from federations import as_float64, deltas, federations
from fedplus import (
    L1,
    L2,
    Blocks,
    CoordinateMedian,
    GeometricMedian,
    Mean,
    Moreau,
    Quadratic,
    SettingError,
    Zero,
)
from fedplus.aggregation import native
from fedplus.aggregation.native.glance import PLACES, WIDTH
from fedplus.aggregation.search import sample_rows
from fedplus.aggregation.shares import Share, whole

pytest.importorskip("numba")

from fedplus.aggregation.native import alone

shapes = st.tuples(st.integers(1, 130), st.integers(1, 70))
wide = st.tuples(st.integers(1, 9), st.integers(500, 4200))  # Several blocks of columns.


def shares(total, parts):
    size = -(-total // parts)
    return [Share(total, i * size, size, "cores") for i in range(parts)]


@given(data=st.data(), shape=shapes | wide, parts=st.integers(1, 3))
@settings(max_examples=40)
def test_sums_over_rows(data, shape, parts):
    models, weights = data.draw(federations(shape))
    exact, each = as_float64(models, weights)
    p, w, delta = jnp.asarray(each, jnp.float32), jnp.asarray(models[0]), jnp.float32(0.1)
    away = np.linalg.norm(exact - exact[0], axis=1)
    expected = (each * 0.1 / np.maximum(away, 0.1)) @ exact
    near = {"rtol": 1e-4, "atol": 1e-5 * np.abs(each @ np.abs(exact)).max()}

    found = sum(native.product(jnp.asarray(models), p, s) for s in shares(shape[0], parts))
    np.testing.assert_allclose(found, each @ exact, **near)
    r, total = jax.tree.map(
        lambda *each: sum(each),
        *(native.reweigh(jnp.asarray(models), p, delta, w, s) for s in shares(shape[0], parts)),
    )
    np.testing.assert_allclose(r, away, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(total, expected, **near)


@given(data=st.data(), shape=shapes | wide, parts=st.integers(1, 3), far=st.booleans(),
       steps=st.integers(0, 4))  # fmt: skip
@settings(max_examples=60)
def test_medians_are_exact_wherever_they_begin(data, shape, parts, far, steps):
    models, weights = data.draw(federations(shape))
    exact, each = as_float64(models, weights)
    w_local, a = jnp.asarray(models[each > 0]), jnp.asarray(each[each > 0], jnp.float32)
    start, spacing = sample_rows(w_local)
    start = start + 1e4 if far else start
    found = [native.medians(w_local, a, start, spacing, s, steps) for s in shares(shape[1], parts)]
    w, passes, closed = (np.concatenate(each)[: shape[1]] for each in zip(*found, strict=True))
    expected = [references.weighted_median(column, each) for column in exact.T]
    np.testing.assert_allclose(w, expected, rtol=3e-7, atol=1e-30)
    assert closed.all()
    assert passes.min() >= 1


@given(
    data=st.data(), shape=shapes | wide, delta=deltas, steps=st.integers(0, 8), far=st.booleans()
)
@settings(max_examples=60)
def test_soft_medians_wherever_they_begin(data, shape, delta, steps, far):
    models, weights = data.draw(federations(shape))
    exact, each = as_float64(models, weights)
    delta = float(np.float32(delta))
    w_local, a = jnp.asarray(models[each > 0]), jnp.asarray(each[each > 0], jnp.float32)
    start, spacing = sample_rows(w_local)
    start = start + 1e4 if far else start
    found = native.soft_medians(
        w_local, a, jnp.float32(delta), start, spacing, whole(shape[1]), steps
    )
    w, pull, _, done = map(np.asarray, found)
    assert done.all()
    expected = np.array([references.soft_median(column, each, delta) for column in exact.T])
    size = references.spread(exact[each > 0], expected) + delta
    assert np.linalg.norm(w - expected) <= 1e-5 * size
    assert np.abs(pull).max() <= 1e-4 * delta * each.sum() + 1e-5 * size


@pytest.mark.parametrize("n", [300, 1100])
def test_threads_find_what_one_finds(n):
    """Sizes at which each loop takes threads, if it may: 2²² entries and more."""
    d = 2**22 // n + 1
    w_local = jnp.asarray(np.random.default_rng(0).normal(size=(n, d)), jnp.float32)
    for aggregator in (Mean(), Moreau(L2(0.1)), CoordinateMedian(), Moreau(L1(0.1))):
        found = []
        for number in (1, 2, 3):
            with native.using(least=0, threads=number):
                found.append(jax.jit(lambda w, a=aggregator: a.solve(w, None, None).w)(w_local))
        for other in found[1:]:
            np.testing.assert_allclose(other, found[0], atol=1e-6)


def test_lanes():
    """Under vmap: of W, and of δ with W for all."""
    rng = np.random.default_rng(1)
    many = jnp.asarray(rng.normal(size=(3, 20, 11)), jnp.float32)
    some = jnp.array([0.01, 0.3, 2.0])
    with native.using(least=0):
        for aggregator in (Mean(), Moreau(L1(0.3)), Moreau(L2(0.3)), GeometricMedian()):
            found = jax.vmap(lambda w, a=aggregator: a(w).w)(many)
            np.testing.assert_allclose(found, [aggregator(w).w for w in many], atol=1e-6)
        for psi in (L1, L2):
            found = jax.vmap(lambda delta, p=psi: Moreau(p(delta))(many[0]).w)(some)
            alone = [Moreau(psi(float(delta)))(many[0]).w for delta in some]
            np.testing.assert_allclose(found, alone, atol=1e-6)


LAYOUT = (("body", 70), ("head", 60), ("tail", 80))
EVERY = (
    Mean(), CoordinateMedian(), GeometricMedian(), Moreau(Quadratic(0.3)), Moreau(L1(0.3)),
    Moreau(L2(0.3)),
    Moreau(Blocks({"head": L1(0.1), "*": L2(0.5)}, LAYOUT)),  # One block in two pieces.
    Moreau(Blocks({"tail": L2(0.1), "*": Blocks({"b*": Zero(), "*": L1(0.2)}, LAYOUT[:2])}, LAYOUT)),
)  # fmt: skip


@pytest.mark.parametrize("n", [9, 80])
@pytest.mark.parametrize("aggregator", EVERY, ids=str)
def test_at_hand_as_in_a_program(aggregator, n):
    """By loops alone, and in a program of XLA's without any; weights, of which some are 0, or none."""
    rng = np.random.default_rng(n)
    models = rng.normal(size=(n, 210)).astype(np.float32)
    models[0] *= 20
    weights = rng.integers(0, 3, n).astype(np.float32)
    program = jax.jit(native.without(lambda *given: aggregator(*given)))
    for each in (None, weights):
        for start in (None, models[1:].mean(axis=0) + np.float32(0.1)):
            found, other = aggregator.at_hand(models, None, start), program(models, None, start)
            if each is not None:
                found = aggregator.at_hand(models[each > 0], each[each > 0], start)
                other = program(models, each, start)
            np.testing.assert_allclose(found.w, other.w, rtol=1e-5, atol=1e-5)
            assert found.converged
            assert found.residual <= 1e-4
            assert found.iterations >= 1


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("n", [9, 80])
@pytest.mark.parametrize(
    "aggregator",
    [
        CoordinateMedian(), Moreau(L1(0.3)),
        Moreau(Blocks({"head": L1(0.1), "*": L1(0.5)}, LAYOUT)),
    ],
    ids=str,
)  # fmt: skip
def test_at_hand_some_columns_at_a_time_as_all_at_once(aggregator, n, start, monkeypatch):
    """The last are fewer; of what is not finite in one of them all hear."""
    rng = np.random.default_rng(n)
    models = rng.normal(size=(n, 210)).astype(np.float32)
    begin = models.mean(axis=0) if start else None
    weights = rng.integers(1, 3, n).astype(np.float32)
    for each in (None, weights):
        once = aggregator.at_hand(models, each, begin)
        monkeypatch.setattr(alone, "COLUMNS", 32)
        found = aggregator.at_hand(models, each, begin)
        np.testing.assert_allclose(found.w, once.w, rtol=1e-6, atol=1e-7)
        assert found.converged
        assert found.residual <= 1e-4
        models[3, 200], was = np.nan, models[3, 200]
        assert aggregator.at_hand(models, each, begin) is None
        models[3, 200] = was
        monkeypatch.undo()


def test_at_hand_nothing_that_is_not_finite_gets_through():
    w_local = np.random.default_rng(0).normal(size=(70, 1000)).astype(np.float32)
    narrow = Moreau(L1(1e-3))  # A window that each coordinate looks for by itself.
    near = w_local.mean(axis=0)
    weights = np.ones(70)
    weights[33] = 0  # Left out.
    for aggregator in (*EVERY[:6], narrow, Moreau(Blocks({"*": L1(0.1)}, (("all", 1000),)))):
        assert aggregator.at_hand(w_local, None, None) is not None
        assert aggregator.at_hand(w_local, None, near) is not None
        for wrong in (np.nan, np.inf, -np.inf):
            for place in ((0, 0), (69, 999), (33, 500)):
                broken = w_local.copy()
                broken[place] = wrong
                assert aggregator.at_hand(broken, None, None) is None
                assert aggregator.at_hand(broken, None, near) is None
            assert np.isfinite(aggregator(broken, weights).w).all()
        with pytest.raises(SettingError, match=r"1 of 70 rows \(33\)"):
            aggregator(broken)
    for aggregator in (Mean(), CoordinateMedian()):
        with pytest.raises(SettingError, match="start must be finite"):
            aggregator(w_local, start=np.full(1000, np.nan))


@pytest.mark.parametrize("scale", [1e37, 1e-36])
def test_at_hand_no_number_is_too_large_or_too_small(scale):
    """Near the ends of what 32 bits hold: no warning, and right where squares do not matter."""
    w_local = (np.random.default_rng(0).normal(size=(70, 1000)) * scale).astype(np.float32)
    exact = w_local.astype(np.float64)
    expected = {Mean(): exact.mean(axis=0), CoordinateMedian(): np.median(exact, axis=0)}
    for aggregator, w in expected.items():
        np.testing.assert_allclose(aggregator(w_local).w, w, rtol=1e-5, atol=1e-5 * scale)
    for aggregator in (Moreau(L1(scale)), Moreau(L2(scale)), GeometricMedian()):
        aggregator(w_local)


def test_a_start_is_not_written_to():
    w_local = np.random.default_rng(0).normal(size=(70, 1000)).astype(np.float32)
    start = w_local.mean(axis=0)
    before = start.copy()
    for aggregator in EVERY[:6]:
        kept = aggregator(w_local, start=start).w
        copy = np.array(kept)
        aggregator(w_local + 1, start=start)
        np.testing.assert_array_equal(start, before)
        np.testing.assert_array_equal(kept, copy)  # Nor a result by the next call.


def test_where_they_are_used():
    def lowered(function, n):
        return jax.jit(function).lower(jnp.ones((n, 2048))).as_text()

    assert "fedplus_product" in lowered(lambda w: Mean()(w).w, 512)
    assert "fedplus" not in lowered(lambda w: Mean()(w).w, 511)
    assert "fedplus" not in lowered(native.without(lambda w: Mean()(w).w), 512)
    with native.using(least=0):
        assert native.usable(np.ones((4, 3), np.float32))
        assert not native.usable(np.ones((4, 3)))  # 64 bits.


def test_nowhere_to_keep_what_is_compiled():
    """As where all folders are read-only: a function that no file has cannot be kept."""
    from fedplus.aggregation.native.loop import kept

    made = {}
    exec("def twice(x):\n    return 2 * x", made)
    assert kept(made["twice"])(21) == 42


CHANGED = """
import sys
sys.path.insert(0, "src")
import numpy as np, fedplus
assert fedplus.__file__.startswith(sys.argv[1])
print(float(fedplus.Mean()(np.ones((4, 2**14), np.float32)).w[0]))
"""


def test_what_is_kept_is_not_stale(tmp_path):
    """A loop that changes is compiled anew, though the file of what calls it is as it was."""
    source = Path(fedplus.__file__).parent
    shutil.copytree(source, tmp_path / "src/fedplus", ignore=shutil.ignore_patterns("__pycache__"))
    rows = tmp_path / "src/fedplus/aggregation/native/rows.py"

    def first():
        command = [sys.executable, "-c", CHANGED, str(tmp_path)]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment(XDG_CACHE_HOME=str(tmp_path / "cache")),
            check=True,
            capture_output=True,
            text=True,
        )
        return float(done.stdout)

    assert first() == first() == 1
    rows.write_text(
        rows.read_text().replace("part[j] += (a * row[j]", "part[j] += (2 * a * row[j]")
    )
    assert first() == 1.25


ONE_WAY = """
import numpy as np
from fedplus import L1, L2, CoordinateMedian, Mean, Moreau
w = np.load("models.npy")
found = [a(w).w for a in (Mean(), CoordinateMedian(), Moreau(L1(0.1)), Moreau(L2(0.1)))]
np.save("found.npy", np.stack(found))
"""


def test_with_and_without_them_the_same(tmp_path):
    w = np.random.default_rng(2).normal(size=(70, 300)).astype(np.float32)
    np.save(tmp_path / "models.npy", w)
    found = []
    for asked in ("always", "off"):
        env = environment(FEDPLUS_NUMBA=asked)
        subprocess.run([sys.executable, "-c", ONE_WAY], cwd=tmp_path, env=env, check=True)
        found.append(np.load(tmp_path / "found.npy"))
    np.testing.assert_allclose(*found, atol=2e-6)
    env = environment(FEDPLUS_NUMBA="never")
    done = subprocess.run(
        [sys.executable, "-c", ONE_WAY], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert "FEDPLUS_NUMBA" in done.stderr
    assert "auto, always, off" in done.stderr


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(1, 3), (7, 40), (90, 1200)])
def test_blocks_are_read_where_they_lie(shape, weighted):
    """As if each were a matrix of its own, of which nothing is compiled."""
    rng = np.random.default_rng(3)
    models = rng.normal(size=shape).astype(np.float32)
    weights = rng.uniform(0.1, 1, shape[0]).astype(np.float32) if weighted else None
    third = shape[1] // 3
    layout = (("a", third), ("b", third), ("c", shape[1] - 2 * third))
    psi = Blocks({"b": L1(0.1), "c": L2(0.1), "*": Quadratic(0.1)}, layout)
    with native.using(least=0):
        found = jax.jit(lambda w, a: Moreau(psi)(w, a).w)(models, weights)
    cuts = np.split(models, [third, 2 * third], axis=1)
    parts = (Quadratic(0.1), L1(0.1), L2(0.1))
    alone = [
        jax.jit(native.without(lambda w, a, p=part: Moreau(p)(w, a).w))(cut, weights)
        for part, cut in zip(parts, cuts, strict=True)
    ]
    np.testing.assert_allclose(found, np.concatenate(alone), atol=3e-6)


@pytest.mark.parametrize(("parties", "far"), [(1, 0), (2, 0), (3, 1), (10, 1), (16, 7)])
@pytest.mark.parametrize("scale", [30.0, 1e6])
def test_products_put_a_few_parties_median_where_a_turn_only_confirms_it(parties, far, scale):
    rng = np.random.default_rng(parties)
    models = rng.normal(size=(parties, 20_000)).astype(np.float32)
    models[:far] += scale * rng.normal(size=20_000).astype(np.float32)  # All in one place.
    found = Moreau(L2(0.1))(models)
    assert found.converged
    if parties >= 10:  # Of fewer, the median may be beside one of them.
        assert found.iterations == 1
    pulls = models.astype(float) - np.asarray(found.w, float)
    strength = np.maximum(np.linalg.norm(pulls, axis=1), 0.1)
    assert np.linalg.norm((pulls / strength[:, None]).sum(axis=0)) < 1e-5 * parties


def test_few_parties_that_are_not_finite_are_told():
    models = np.ones((4, 20_000), np.float32)
    models[2, 7] = np.nan
    with pytest.raises(SettingError, match="w_local must be finite"):
        Moreau(L2(0.1))(models)


@pytest.mark.parametrize(("parties", "far"), [(17, 0), (17, 8), (60, 6), (256, 100)])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_glance_costs_turns_at_most(parties, far, hidden):
    """Of a glance that shows most of it, and of one that shows nothing: the columns looked at agree."""
    rng = np.random.default_rng(parties)
    models = rng.normal(size=(parties, 2_000)).astype(np.float32)
    models[:far] += 1e4 * rng.normal(size=2_000).astype(np.float32)
    if hidden:
        for place in range(PLACES):
            first = place * (2_000 - WIDTH) // (PLACES - 1)
            models[:, first : first + WIDTH] = 1.0
    weights = rng.integers(1, 4, parties).astype(np.float32)
    weights[:far] = 1
    for each in (None, weights):
        found = Moreau(L2(0.1))(models, each)
        assert found.converged
        if not hidden and 10 * far <= parties:
            assert found.iterations <= 5
        pulls = models.astype(float) - found.w
        pulls /= np.maximum(np.linalg.norm(pulls, axis=1, keepdims=True), 0.1)
        share = np.ones(parties) if each is None else each
        assert np.linalg.norm(share @ pulls) < 2e-6 * share.sum()
