"""Attacks follow their definitions; robust methods withstand bad models and bad data."""

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
SETTINGS = {"rounds": 40, "steps": 5, "batch_size": 10, "evaluate_every": 40}


@pytest.fixture(scope="module")
def context():
    rng = np.random.default_rng(0)
    w, first = jnp.asarray(rng.normal(size=(2, 6)), jnp.float32)
    return AttackContext(jax.random.key(3), w, first)


def apply_attack(attack, context):
    """Return all models, the models that the bad parties send, the honest models and the bad mask."""
    rng = np.random.default_rng(1)
    models = rng.normal(size=(5, 6)).astype(np.float32)
    bad = np.array([False, True, False, False, True])
    sent = attack(jnp.asarray(models), jnp.asarray(bad), context)
    return models.astype(float), np.asarray(sent, float)[bad], models[~bad].astype(float), bad


def test_each_attack_follows_its_definition(context):
    w = np.asarray(context.w_global, float)
    models, sent, honest, bad = apply_attack(faults.sign_flip(2.0), context)
    np.testing.assert_allclose(sent, w - 2 * (models[bad] - w), rtol=1e-5)
    _, sent, *_ = apply_attack(faults.scaling(7.0), context)
    np.testing.assert_allclose(sent, w + 7 * (models[bad] - w), rtol=1e-4)
    _, sent, *_ = apply_attack(faults.a_little_is_enough(1.5), context)
    expected = honest.mean(0) - 1.5 * honest.std(0)
    np.testing.assert_allclose(sent, np.tile(expected, (2, 1)), rtol=1e-4, atol=1e-5)
    _, sent, *_ = apply_attack(faults.inner_product(0.5), context)
    expected = w - 0.5 * (honest.mean(0) - w)
    np.testing.assert_allclose(sent, np.tile(expected, (2, 1)), rtol=1e-4, atol=1e-5)
    _, sent, *_ = apply_attack(faults.replay(), context)
    np.testing.assert_array_equal(sent, np.tile(np.asarray(context.w_first, float), (2, 1)))
    _, sent, *_ = apply_attack(faults.not_finite(), context)
    assert np.isnan(sent).all()
    noise = faults.gaussian(3.0)(jnp.zeros((2000, 6)), jnp.ones(2000, bool), context) - w
    assert np.std(noise) == pytest.approx(3.0, rel=0.05)
    assert np.abs(np.mean(noise)) < 0.15


def honest_score(method, fault, sizes=SIZES, **more):
    """Return the mean accuracy of the honest parties, and the run."""
    run = fp.simulate(method, federation(sizes), CLASSIFIER, faults=fault, **(SETTINGS | more))
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
    broken, _ = honest_score(presets.fedavg(eta=0.1), fault)
    assert broken < 0.75
    for name, method in ROBUST.items():
        score, _ = honest_score(method, fault)
        assert score > 0.8, name


@pytest.mark.parametrize("name", ["fedgeomed+", "fedcomed+"])
@pytest.mark.parametrize(
    "attack", [faults.a_little_is_enough(1.5), faults.inner_product(2.0), faults.replay()],
    ids=["a little is enough", "inner product", "replay"],
)  # fmt: skip
def test_personal_robust_models_survive_the_subtle_attacks(name, attack):
    score, _ = honest_score(ROBUST[name], Fault(BAD, attack))
    assert score > 0.88


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_model_that_is_not_finite_is_dropped_and_counted(value):
    """The run equals the one in which those parties have weight 0."""
    fault = Fault(BAD, faults.not_finite(value))
    for method in (presets.fedavg(eta=0.1), ROBUST["fedgeomed+"], ROBUST["comed"]):
        _, run = honest_score(method, fault, rounds=5)
        assert run.figures["dropped"].tolist() == [2] * 5
        weights = np.ones(9)
        weights[list(BAD)] = 0
        without = fp.simulate(
            method, federation(SIZES), CLASSIFIER, weights=weights, **(SETTINGS | {"rounds": 5})
        )
        np.testing.assert_allclose(run.w_global, without.w_global, rtol=1e-4, atol=1e-6)
        assert without.figures["dropped"].tolist() == [0] * 5  # The user left them out.


def test_two_faults_can_be_combined():
    """Each party has its own attack; the honest statistics exclude both parties."""
    both = [Fault((1,), faults.not_finite()), Fault((5,), faults.scaling(-50.0))]
    score, run = honest_score(ROBUST["fedcomed+"], both)
    assert score > 0.88
    assert run.figures["dropped"].tolist() == [1] * 40


def test_a_bad_party_keeps_its_own_model():
    """A bad party trains like any other: with λ = 0 its personal model is as good as without fault."""
    _, run = honest_score(ROBUST["fedgeomed+"], Fault(BAD, faults.not_finite()))
    assert run.evaluations["personal_score"][-1][list(BAD)].mean() > 0.88


def test_bad_data_of_some_parties_harms_robust_personal_methods_least():
    clean = federation((80,) * 9)
    flipped = corrupt.corrupt(clean, BAD, corrupt.flip(3))
    scores = {}
    for name, method in {"fedavg": presets.fedavg(eta=0.1), **ROBUST}.items():
        run = fp.simulate(method, flipped, CLASSIFIER, **SETTINGS)
        scores[name] = run.evaluations["personal_score"][-1][HONEST].mean()
    assert scores["fedgeomed+"] > 0.88
    assert scores["fedcomed+"] > 0.88
    assert scores["fedgeomed+"] >= scores["fedavg"]


def test_each_corruption_follows_its_definition():
    clean = federation()
    party = next(k for k in range(5) if len(np.unique(clean.train.party(k)[1])) > 1)
    x, y = clean.train.party(party)
    for how, check in {
        corrupt.negate: lambda a, b: (a == -x).all() and (b == y).all(),
        corrupt.noise(2.0): lambda a, b: 1 < np.std(a - x) < 3 and (b == y).all(),
        corrupt.flip(3): lambda a, b: (a == x).all() and (b == 2 - y).all(),
        corrupt.shuffle: lambda a, b: (
            (a == x).all() and (b != y).any() and (np.sort(b) == np.sort(y)).all()
        ),
    }.items():
        corrupted = corrupt.corrupt(clean, [str(party)], how)
        assert check(*corrupted.train.party(party))
        for k in set(range(5)) - {party}:
            np.testing.assert_array_equal(corrupted.train.party(k)[0], clean.train.party(k)[0])
        np.testing.assert_array_equal(corrupted.test.x, clean.test.x)
    outlier = corrupt.corrupt(clean, [party], corrupt.negate, splits=("train", "test"))
    np.testing.assert_array_equal(outlier.test.party(party)[0], -clean.test.party(party)[0])


@pytest.mark.parametrize("parties", [(), (9,), (-1,)])
def test_faults_of_unknown_parties_are_rejected(parties):
    with pytest.raises(fp.SettingError, match=r"Fault.parties must be some of the parties 0 to 8"):
        honest_score(presets.fedavg(eta=0.1), Fault(parties, faults.replay()))


def test_the_program_does_not_depend_on_which_parties_are_bad():
    """Experiments with many shares of attackers compile once."""

    def program(*parties):
        fault = faults.Fault(parties, faults.sign_flip(3.0))
        method = presets.fedavg(eta=0.1)
        settings = {k: v for k, v in SETTINGS.items() if k != "evaluate_every"}
        setup = set_up([method], federation(), CLASSIFIER, seeds=[0], faults=fault, **settings)
        arguments = setup.plan, setup.inputs, setup.lane, setup.state, jnp.int32(0), jnp.int32(1)
        return run_rounds.lower(*arguments).as_text()

    assert program(0) == program(1, 2)
