"""Parties that send wrong models, and parties with wrong data: who survives what."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus import presets
from fedplus.data import corrupt
from fedplus.simulation import Fault, faults
from fedplus.simulation.engine import run_rounds
from fedplus.simulation.faults import AttackContext
from fedplus.simulation.setup import set_up
from small_federation import CLASSIFIER, federation

SIZES = (60,) * 9
BAD = (1, 5)
HONEST = [k for k in range(9) if k not in BAD]
ASKED = {"rounds": 40, "steps": 5, "batch_size": 10, "evaluate_every": 40}


@pytest.fixture(scope="module")
def known():
    rng = np.random.default_rng(0)
    w, first = jnp.asarray(rng.normal(size=(2, 6)), jnp.float32)
    return AttackContext(jax.random.key(3), w, first)


def sent(attack, known):
    rng = np.random.default_rng(1)
    models = rng.normal(size=(5, 6)).astype(np.float32)
    bad = np.array([False, True, False, False, True])
    out = attack(jnp.asarray(models), jnp.asarray(bad), known)
    return models.astype(float), np.asarray(out, float)[bad], models[~bad].astype(float), bad


def test_each_attack_by_its_definition(known):
    w = np.asarray(known.w_global, float)
    models, out, honest, bad = sent(faults.sign_flip(2.0), known)
    np.testing.assert_allclose(out, w - 2 * (models[bad] - w), rtol=1e-5)
    _, out, *_ = sent(faults.scaling(7.0), known)
    np.testing.assert_allclose(out, w + 7 * (models[bad] - w), rtol=1e-4)
    _, out, *_ = sent(faults.a_little_is_enough(1.5), known)
    expected = honest.mean(0) - 1.5 * honest.std(0)
    np.testing.assert_allclose(out, np.tile(expected, (2, 1)), rtol=1e-4, atol=1e-5)
    _, out, *_ = sent(faults.inner_product(0.5), known)
    expected = w - 0.5 * (honest.mean(0) - w)
    np.testing.assert_allclose(out, np.tile(expected, (2, 1)), rtol=1e-4, atol=1e-5)
    _, out, *_ = sent(faults.replay(), known)
    np.testing.assert_array_equal(out, np.tile(np.asarray(known.w_first, float), (2, 1)))
    _, out, *_ = sent(faults.not_finite(), known)
    assert np.isnan(out).all()
    noise = faults.gaussian(3.0)(jnp.zeros((2000, 6)), jnp.ones(2000, bool), known) - w
    assert np.std(noise) == pytest.approx(3.0, rel=0.05)
    assert np.abs(np.mean(noise)) < 0.15


def judged(method, fault, sizes=SIZES, **more):
    """Mean accuracy of the honest parties, and the run."""
    run = fp.simulate(method, federation(sizes), CLASSIFIER, faults=fault, **(ASKED | more))
    return run.evaluations["personal_score"][-1][HONEST].mean(), run


PLUS = {"eta": 0.1, "sigma": 1.0, "delta": 0.05}
ROBUST = {
    "rfa": presets.rfa(eta=0.1),
    "comed": presets.coordinate_median(eta=0.1),
    "fedgeomed+": presets.fedgeomed_plus(**PLUS),
    "fedcomed+": presets.fedcomed_plus(**PLUS),
}


@pytest.mark.parametrize(
    "attack", [faults.sign_flip(20.0), faults.scaling(-100.0), faults.gaussian(100.0)],
    ids=["sign flip", "scaling", "gaussian"],
)  # fmt: skip
def test_the_mean_breaks_and_the_medians_do_not(attack):
    fault = Fault(BAD, attack)
    broken, _ = judged(presets.fedavg(eta=0.1), fault)
    assert broken < 0.75
    for name, method in ROBUST.items():
        score, _ = judged(method, fault)
        assert score > 0.8, name


@pytest.mark.parametrize("name", ["fedgeomed+", "fedcomed+"])
@pytest.mark.parametrize(
    "attack", [faults.a_little_is_enough(1.5), faults.inner_product(2.0), faults.replay()],
    ids=["a little is enough", "inner product", "replay"],
)  # fmt: skip
def test_personal_robust_models_survive_the_subtle_attacks(name, attack):
    score, _ = judged(ROBUST[name], Fault(BAD, attack))
    assert score > 0.88


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_model_that_is_not_finite_is_dropped_and_counted(value):
    """The run is the one that it would be without those parties."""
    fault = Fault(BAD, faults.not_finite(value))
    for method in (presets.fedavg(eta=0.1), ROBUST["fedgeomed+"], ROBUST["comed"]):
        _, run = judged(method, fault, rounds=5)
        assert run.figures["dropped"].tolist() == [2] * 5
        weights = np.ones(9)
        weights[list(BAD)] = 0
        without = fp.simulate(
            method, federation(SIZES), CLASSIFIER, weights=weights, **(ASKED | {"rounds": 5})
        )
        np.testing.assert_allclose(run.w_global, without.w_global, rtol=1e-4, atol=1e-6)


def test_two_faults_at_once():
    """Each party does its own; the honest ones' statistics leave both out."""
    both = [Fault((1,), faults.not_finite()), Fault((5,), faults.scaling(-50.0))]
    score, run = judged(ROBUST["fedcomed+"], both)
    assert score > 0.88
    assert run.figures["dropped"].tolist() == [1] * 40


def test_a_bad_party_keeps_its_own_model():
    """It trains like any other: with λ = 0 its personal model is as good as without the fault."""
    _, run = judged(ROBUST["fedgeomed+"], Fault(BAD, faults.not_finite()))
    assert run.evaluations["personal_score"][-1][list(BAD)].mean() > 0.88


def test_bad_data_of_some_harms_the_robust_and_personal_ones_least():
    clean = federation((80,) * 9)
    flipped = corrupt.corrupt(clean, BAD, corrupt.flip(3))
    scores = {}
    for name, method in {"fedavg": presets.fedavg(eta=0.1), **ROBUST}.items():
        run = fp.simulate(method, flipped, CLASSIFIER, **ASKED)
        scores[name] = run.evaluations["personal_score"][-1][HONEST].mean()
    assert scores["fedgeomed+"] > 0.88
    assert scores["fedcomed+"] > 0.88
    assert scores["fedgeomed+"] >= scores["fedavg"]


def test_each_corruption_by_its_definition():
    clean = federation()
    who = next(k for k in range(5) if len(np.unique(clean.train.party(k)[1])) > 1)
    x, y = clean.train.party(who)
    for how, check in {
        corrupt.negate: lambda a, b: (a == -x).all() and (b == y).all(),
        corrupt.noise(2.0): lambda a, b: 1 < np.std(a - x) < 3 and (b == y).all(),
        corrupt.flip(3): lambda a, b: (a == x).all() and (b == 2 - y).all(),
        corrupt.shuffle: lambda a, b: (
            (a == x).all() and (b != y).any() and (np.sort(b) == np.sort(y)).all()
        ),
    }.items():
        made = corrupt.corrupt(clean, [str(who)], how)
        assert check(*made.train.party(who))
        for k in set(range(5)) - {who}:
            np.testing.assert_array_equal(made.train.party(k)[0], clean.train.party(k)[0])
        np.testing.assert_array_equal(made.test.x, clean.test.x)
    outlier = corrupt.corrupt(clean, [who], corrupt.negate, splits=("train", "test"))
    np.testing.assert_array_equal(outlier.test.party(who)[0], -clean.test.party(who)[0])


@pytest.mark.parametrize("parties", [(), (9,), (-1,)])
def test_faults_of_parties_that_are_not_there(parties):
    with pytest.raises(fp.SettingError, match=r"Fault.parties must be some of the parties 0 to 8"):
        judged(presets.fedavg(eta=0.1), Fault(parties, faults.replay()))


def test_one_program_does_for_any_bad_parties():
    """Who attacks is read, not compiled: many shares of attackers cost one compilation."""

    def program(*parties):
        fault = faults.Fault(parties, faults.sign_flip(3.0))
        method = presets.fedavg(eta=0.1)
        asked = {k: v for k, v in ASKED.items() if k != "evaluate_every"}
        ready = set_up([method], federation(), CLASSIFIER, seeds=[0], faults=fault, **asked)
        given = (ready.plan, ready.inputs, ready.lane, ready.state, jnp.int32(0), jnp.int32(1))
        return run_rounds.lower(*given).as_text()

    assert program(0) == program(1, 2)
