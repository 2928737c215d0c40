"""The baselines in the engine: they learn, resume to the bit, and are judged on the right model."""

import dataclasses

import jax
import numpy as np
import pytest
from every_method import EVERY

import fedplus as fp
from fedplus import baselines as b
from fedplus import models, presets
from fedplus.simulation import Fault, faults
from small_federation import CLASSIFIER, federation

every = pytest.mark.parametrize("name", EVERY)


def small():
    made = federation(sizes=(40, 60, 35, 45, 50))
    parties = [made.train.party(k) for k in range(5)], [made.test.party(k) for k in range(5)]
    return fp.Federation.from_arrays(*parties, validation_share=0.2, name="small")


@every
def test_stopped_and_resumed_it_is_the_same_to_the_bit(name, tmp_path):
    asked = {"steps": 4, "batch_size": 8, "cohort": 3, "seed": 3, "evaluate_every": 2}
    straight = fp.simulate(EVERY[name], small(), CLASSIFIER, rounds=6, **asked)
    fp.simulate(EVERY[name], small(), CLASSIFIER, rounds=3, checkpoint=tmp_path, **asked)
    resumed = fp.simulate(
        EVERY[name], small(), CLASSIFIER, rounds=6, checkpoint=tmp_path, resume=True, **asked
    )
    for one, other in zip(
        jax.tree.leaves(straight.state), jax.tree.leaves(resumed.state), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(straight.models, resumed.models)
    np.testing.assert_array_equal(
        straight.evaluations["personal_score"][-1], resumed.evaluations["personal_score"][-1]
    )


LEARN = {
    "scaffold": (b.Scaffold(eta_l=0.05), 0.82),
    "pfedme": (b.PFedMe(eta=0.05, lam=1.0, eta_inner=0.05), 0.82),
    "perfedavg": (b.PerFedAvg(alpha=0.05, beta=0.05), 0.82),
    "apfl": (b.APFL(eta=0.05), 0.86),
    "ditto": (b.Ditto(eta=0.05, lam=0.1), 0.86),
    "l2gd": (b.L2GD(alpha=0.5, lam=0.3, p=0.1), 0.82),
    "hypcluster": (b.HypCluster(eta=0.05, q=2, spread=0.1), 0.9),
    "mapper": (b.Mapper(eta=0.05, eta_c=0.2), 0.86),
    "fedfomo": (b.FedFomo(eta=0.05), 0.86),
    "fedsplit": (b.FedSplit(s=1.0, eta=0.05), 0.82),
}


@pytest.mark.parametrize("name", LEARN)
def test_it_learns_on_digits_robust(name):
    """One of ten parties holds negatives: a common model can reach 0.9 of what the others reach."""
    method, expected = LEARN[name]
    data = fp.data.load("digits-robust", validation_share=0.1)
    run = fp.simulate(method, data, models.logistic(64, 10), rounds=60, steps=20, batch_size=20)
    assert run.summary().mean > expected


def score_of(run, party, w):
    """Accuracy of a flat model on a party's test samples, by plain NumPy."""
    x, y = run.federation.test.party(party)
    bias, weight = w[:3], w[3:].reshape(4, 3)
    return np.mean((x @ weight + bias).argmax(1) == y)


@every
def test_the_score_is_of_the_model_that_its_paper_judges(name):
    run = fp.simulate(EVERY[name], small(), CLASSIFIER, rounds=8, steps=4, batch_size=8)
    state, last = run.state, run.evaluations["personal_score"][-1]
    judged = {
        "scaffold": lambda k: state.w_global,
        "fedsplit": lambda k: state.w_global,
        "pfedme": lambda k: state.theta[k],
        "fedfomo": lambda k: state.theta[k],
        "apfl": lambda k: state.alpha[k] * state.v_local[k] + (1 - state.alpha[k]) * state.w_global,
        "ditto": lambda k: state.v_local[k],
        "l2gd": lambda k: state.w_local[k],
        "hypcluster": lambda k: state.centres[state.choice[k]],
        "mapper": lambda k: state.lam[k] * state.w_local[k] + (1 - state.lam[k]) * state.w_global,
        "perfedavg": lambda k: run.models[k],
    }[name.split("-")[0]]
    for k in range(5):
        assert last[k] == pytest.approx(score_of(run, k, np.asarray(judged(k))), abs=1e-6)


def test_per_fedavg_is_judged_after_a_gradient_step_on_the_partys_training_samples():
    """With minibatches as large as a party that step is known exactly."""
    data = federation(sizes=(50,) * 4)
    method = b.PerFedAvg(alpha=0.5, beta=0.1)
    run = fp.simulate(method, data, CLASSIFIER, rounds=5, steps=3, batch_size=40)
    w = run.w_global
    from small_federation import plain_loss

    params = {"bias": w[:3], "weight": w[3:].reshape(4, 3)}
    for k in range(4):
        x, y = data.train.party(k)
        assert len(y) == 40
        _, g = plain_loss(params, x, y)
        expected = w - 0.5 * np.concatenate([g["bias"], g["weight"].ravel()])
        np.testing.assert_allclose(run.models[k], expected, atol=1e-5)
        np.testing.assert_allclose(
            np.concatenate([run.parameters(k)["bias"], run.parameters(k)["weight"].ravel()]),
            expected, atol=1e-5,
        )  # fmt: skip
    assert run.models.std(axis=0).max() > 1e-3


def test_several_settings_and_seeds_are_one_program():
    methods = [b.Ditto(eta=0.1, lam=lam) for lam in (0.0, 1.0)]
    runs = fp.sweep(methods, small(), CLASSIFIER, rounds=5, steps=4, batch_size=8, seeds=(0, 1))
    for run in runs:
        alone = fp.simulate(
            run.algorithm, small(), CLASSIFIER, rounds=5, steps=4, batch_size=8, seed=run.seed
        )
        np.testing.assert_allclose(run.models, alone.models, rtol=1e-4, atol=1e-5)


def test_ditto_with_a_robust_aggregator_withstands_what_the_mean_does_not():
    attack = Fault((1,), faults.sign_flip(scale=50.0))
    asked = {"rounds": 30, "steps": 5, "batch_size": 8, "faults": attack}
    fragile = fp.simulate(b.Ditto(eta=0.1, lam=2.0), small(), CLASSIFIER, **asked)
    robust = dataclasses.replace(fragile.algorithm, aggregate=fp.CoordinateMedian())
    sturdy = fp.simulate(robust, small(), CLASSIFIER, **asked)
    assert sturdy.summary("global").mean > fragile.summary("global").mean + 0.2


def test_fedfomo_without_validation_samples_says_what_to_do():
    with pytest.raises(fp.SettingError, match=r"no validation samples.*validation_share=0\.2"):
        fp.simulate(b.FedFomo(eta=0.1), federation(), CLASSIFIER, rounds=2, steps=2)


def test_local_training_and_fedavg_bracket_ditto():
    """λ between 0 and large: the same run moves from one to the other."""
    asked = {"rounds": 10, "steps": 4, "batch_size": 8}
    local = fp.simulate(presets.local_sgd(eta=0.1), small(), CLASSIFIER, **asked).models
    none = fp.simulate(b.Ditto(eta=0.1, lam=0.0), small(), CLASSIFIER, **asked).models
    np.testing.assert_allclose(none, local, atol=1e-5)
    pulled = fp.simulate(b.Ditto(eta=0.1, lam=9.0), small(), CLASSIFIER, **asked)
    assert np.std(pulled.models, axis=0).max() < np.std(local, axis=0).max()


@pytest.mark.parametrize("steps", [1, 3])
def test_per_fedavg_takes_three_minibatches_a_step_whichever_way_it_runs(steps):
    asked = {"rounds": 3, "steps": steps, "batch_size": 8}
    method = b.PerFedAvg(alpha=0.1, beta=0.1)
    at_once = fp.simulate(method, small(), CLASSIFIER, each="vmap", **asked)
    in_turn = fp.simulate(method, small(), CLASSIFIER, each="map", **asked)
    np.testing.assert_allclose(at_once.w_global, in_turn.w_global, rtol=1e-4, atol=1e-6)


def test_fedfomo_thinks_equally_of_equals():
    """All models alike: whose are sent is uniform, with and without exploring."""
    for epsilon in (0.0, 1.0):
        method = b.FedFomo(eta=0.1, m=1, epsilon=epsilon)
        state = method.init(np.zeros(2), 6)
        work = fp.Work(np.array([0]), np.zeros((1, 1, 1)), np.array([1]))
        chosen = [
            int(method._chosen(state, work._replace(key=jax.random.key(i)), 6)[0, 0])
            for i in range(300)
        ]
        counts = np.bincount(chosen, minlength=6)
        assert counts[0] == 0
        assert counts[1:].min() > 30
