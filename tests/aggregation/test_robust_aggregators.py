"""Trimmed mean, Krum, centred clipping and norm clipping: their definitions and their robustness."""

import dataclasses

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given
from scipy import stats

import fedplus as fp
from fedplus import CentredClipping, Krum, Mean, NormClipping, TrimmedMean

pytestmark = pytest.mark.usefixtures("x64")
EVERY = {
    "trimmed": TrimmedMean(0.2),
    "krum": Krum(faulty=2),
    "multi-krum": Krum(faulty=2, keep=4),
    "centred clipping": CentredClipping(2.0, iterations=5),
    "norm clipping": NormClipping(2.0),
}
every = pytest.mark.parametrize("aggregate", EVERY.values(), ids=EVERY)


def models(n=11, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@given(seed=st.integers(0, 1000), n=st.integers(1, 40), cut=st.floats(0, 0.48))
def test_the_trimmed_mean_equals_scipys_if_whole_parties_are_trimmed(seed, n, cut):
    each = int(cut * n)
    w = models(n, 3, seed)
    expected = stats.trim_mean(w, each / n + 1e-12, axis=0)
    assert np.allclose(TrimmedMean(each / n)(w).w, expected)


def test_the_trimmed_mean_with_weights_equals_that_of_repeated_parties():
    w, weights = models(), np.array([1, 2, 1, 0, 1, 3, 1, 1, 1, 2, 1])
    for trim in (0.0, 0.1, 0.3):
        expected = TrimmedMean(trim)(np.repeat(w, weights, axis=0)).w
        assert np.allclose(TrimmedMean(trim)(w, weights).w, expected)
    assert np.allclose(TrimmedMean(0.0)(w, weights).w, Mean()(w, weights).w)


@given(seed=st.integers(0, 1000), more=st.integers(4, 12), faulty=st.integers(0, 4))
def test_krum_fulfils_its_definition(seed, more, faulty):
    n = 2 * faulty + more  # With n ≥ 2f + 4 no two models can be each other's only neighbour.
    w = models(n, 4, seed)
    near = max(n - faulty - 2, 1)
    scores = []
    for i in range(n):
        squares = sorted(np.sum((w[i] - w[j]) ** 2) for j in range(n) if j != i)
        scores.append(sum(squares[:near]))
    order = np.argsort(scores)
    assert np.allclose(Krum(faulty)(w).w, w[order[0]])
    assert np.allclose(Krum(faulty, keep=3)(w).w, w[order[:3]].mean(0))


@given(seed=st.integers(0, 1000), tau=st.floats(0.1, 10), times=st.integers(1, 5))
def test_clipping_fulfils_its_definition(seed, tau, times):
    w, v = models(9, 4, seed), np.random.default_rng(seed + 1).normal(size=4)
    first = v
    for i in range(times):
        far = np.linalg.norm(w - v, axis=1)
        v = v + np.mean((w - v) * np.minimum(1, tau / far)[:, None], axis=0)
        if i == 0:
            assert np.allclose(NormClipping(tau)(w, start=first).w, v)
    assert np.allclose(CentredClipping(tau, times)(w, start=first).w, v)
    assert np.allclose(CentredClipping(1e9, 1)(w, start=first).w, w.mean(0))


@every
def test_two_faulty_parties_of_eleven_do_little_harm(aggregate):
    honest = models()
    w = honest.copy()
    far = aggregate(honest, start=np.zeros(6)).w
    for sign in (1, -1):
        w[[2, 7]] = sign * 1e6
        moved = np.linalg.norm(aggregate(w, start=np.zeros(6)).w - far)
        assert moved < 3
        assert np.linalg.norm(Mean()(w).w - honest.mean(0)) > 1e5


@pytest.mark.parametrize("far", [1e6, 1e12, 1e19, 3e19, 1e30])
def test_a_faulty_party_has_no_influence_however_far_away_it_is(far):
    """In float32, squares of 3e19 overflow and shares of a party are rounded."""
    with jax.enable_x64(False):
        for n in (5, 12, 37, 119):
            w = models(n, 3).astype(np.float32)
            for row in (0, n // 2):
                attacked = w.copy()
                attacked[row] = far
                honest = np.delete(w, row, axis=0)
                for aggregate in (TrimmedMean(1 / n), Krum(1), Krum(1, keep=2)):
                    result = np.asarray(aggregate(attacked).w)
                    assert (result <= honest.max(0) + 1e-5).all()
                    assert (result >= honest.min(0) - 1e-5).all()


@every
def test_a_party_of_weight_zero_is_left_out_whatever_its_entries(aggregate):
    w, weights = models(), np.ones(11)
    weights[4] = 0
    expected = aggregate(np.delete(w, 4, axis=0), start=np.zeros(6)).w
    for junk in (np.nan, np.inf, 1e30):
        w[4] = junk
        assert np.allclose(aggregate(w, weights, start=np.zeros(6)).w, expected)


@every
def test_the_order_of_parties_does_not_matter_and_equal_parties_agree(aggregate):
    w = models()
    start = np.zeros(6)
    assert np.allclose(aggregate(w[::-1], start=start).w, aggregate(w, start=start).w)
    same = np.tile(w[:1], (7, 1))
    assert np.allclose(aggregate(same, start=same[0]).w, w[0])
    assert np.allclose(aggregate(same).w, w[0])


@every
def test_it_works_under_jit_and_vmap(aggregate):
    w = np.stack([models(seed=s) for s in range(3)])
    together = jax.jit(jax.vmap(lambda models: aggregate(models).w))(w)
    for models_, result in zip(w, together, strict=True):
        assert np.allclose(aggregate(models_).w, result)


@every
def test_a_shift_of_all_models_shifts_the_result(aggregate):
    """In float32, models around 1000 must not lose their differences to rounding."""
    with jax.enable_x64(False):
        w = models().astype(np.float32)
        near = aggregate(w, start=np.zeros(6, np.float32)).w
        far = aggregate(w + 1000, start=np.full(6, 1000, np.float32)).w
    assert np.allclose(far - 1000, near, atol=2e-3)


@every
def test_fedavg_and_fedplus_learn_with_it_under_attack(aggregate):
    """A sixth of the parties flips signs."""
    from fedplus.simulation import Fault, faults
    from small_federation import CLASSIFIER, federation

    if hasattr(aggregate, "tau"):
        aggregate = dataclasses.replace(aggregate, tau=0.3)  # About an honest update's length.
    with jax.enable_x64(False):
        parties = federation(sizes=(40,) * 12)
        attack = Fault((3, 8), faults.sign_flip(scale=20.0))
        local = fp.LocalSolve(fp.Anchor(), eta=0.1, lam=1.0)
        settings = {"rounds": 30, "steps": 5, "batch_size": 10, "faults": attack}

        def accuracy(aggregate):
            method = fp.FedPlus(local, aggregate, over="active")
            return fp.simulate(method, parties, CLASSIFIER, **settings).summary().mean

        assert accuracy(aggregate) > 0.75
        plus = fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5), aggregate)
        assert fp.simulate(plus, parties, CLASSIFIER, **settings).summary().mean > 0.75


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: TrimmedMean(0.5), "TrimmedMean.trim must be a finite number in"),
        (lambda: TrimmedMean(-0.1), "TrimmedMean.trim must be"),
        (lambda: Krum(-1), "Krum.faulty must be"),
        (lambda: Krum(1.5), "Krum.faulty must be a whole number"),
        (lambda: Krum(1, keep=0), "Krum.keep must be"),
        (lambda: CentredClipping(0.0), "CentredClipping.tau must be"),
        (lambda: CentredClipping(1.0, 0), "CentredClipping.iterations must be"),
        (lambda: NormClipping(float("inf")), "NormClipping.tau must be"),
    ],
)
def test_bad_settings_of_robust_aggregators_are_reported(make, match):
    with pytest.raises(fp.SettingError, match=match.replace(".", r"\.")):
        make()
