"""Simulations with the baselines: they learn, resume exactly, and evaluate the right model."""

import dataclasses

import jax
import numpy as np
import pytest
from baseline_settings import EVERY

import fedplus as fp
from fedplus import baselines as b
from fedplus import models, presets
from fedplus.simulation import Fault, faults
from small_federation import CLASSIFIER, federation

every = pytest.mark.parametrize("name", EVERY)


def with_validation():
    """Return a small federation with validation samples."""
    data = federation(sizes=(40, 60, 35, 45, 50))
    parties = [data.train.party(k) for k in range(5)], [data.test.party(k) for k in range(5)]
    return fp.Federation.from_arrays(*parties, validation_share=0.2, name="small")


@every
def test_a_resumed_run_equals_an_uninterrupted_one_bit_by_bit(name, tmp_path):
    options = {"steps": 4, "batch_size": 8, "cohort": 3, "seed": 3, "evaluate_every": 2}
    straight = fp.simulate(EVERY[name], with_validation(), CLASSIFIER, rounds=6, **options)
    fp.simulate(
        EVERY[name], with_validation(), CLASSIFIER, rounds=3, checkpoint=tmp_path, **options
    )
    resumed = fp.simulate(
        EVERY[name],
        with_validation(),
        CLASSIFIER,
        rounds=6,
        checkpoint=tmp_path,
        resume=True,
        **options,
    )
    pairs = zip(jax.tree.leaves(straight.state), jax.tree.leaves(resumed.state), strict=True)
    for expected, leaf in pairs:
        np.testing.assert_array_equal(expected, leaf)
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
    "localupdate": (b.LocalUpdate(eta=0.05, gamma=0.02), 0.82),
}


@pytest.mark.filterwarnings("ignore:Local steps were given up")
@pytest.mark.parametrize("name", LEARN)
def test_it_learns_on_digits_robust(name):
    """One of ten parties has negative images, so a common model fails on it."""
    method, expected = LEARN[name]
    data = fp.data.load("digits-robust", validation_share=0.1)
    run = fp.simulate(method, data, models.logistic(64, 10), rounds=60, steps=20, batch_size=20)
    assert run.summary().mean > expected


def score_of(run, party, w):
    """Return the accuracy of a flat model on a party's test samples, in plain NumPy."""
    x, y = run.federation.test.party(party)
    bias, weight = w[:3], w[3:].reshape(4, 3)
    return np.mean((x @ weight + bias).argmax(1) == y)


@every
def test_the_score_is_that_of_the_model_that_the_paper_evaluates(name):
    run = fp.simulate(EVERY[name], with_validation(), CLASSIFIER, rounds=8, steps=4, batch_size=8)
    state, last = run.state, run.evaluations["personal_score"][-1]
    evaluated = {
        "scaffold": lambda k: state.w_global,
        "fedsplit": lambda k: state.w_global,
        "localupdate": lambda k: state.w_global,
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
        assert last[k] == pytest.approx(score_of(run, k, np.asarray(evaluated(k))), abs=1e-6)


def test_per_fedavg_is_evaluated_after_a_gradient_step_on_the_partys_training_samples():
    """With minibatches as large as the party, this step is known exactly."""
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


def test_a_sweep_equals_single_runs():
    methods = [b.Ditto(eta=0.1, lam=lam) for lam in (0.0, 1.0)]
    runs = fp.sweep(
        methods, with_validation(), CLASSIFIER, rounds=5, steps=4, batch_size=8, seeds=(0, 1)
    )
    for run in runs:
        alone = fp.simulate(
            run.algorithm,
            with_validation(),
            CLASSIFIER,
            rounds=5,
            steps=4,
            batch_size=8,
            seed=run.seed,
        )
        np.testing.assert_allclose(run.models, alone.models, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Local steps were given up")
def test_ditto_with_a_robust_aggregator_withstands_an_attack():
    attack = Fault((1,), faults.sign_flip(scale=50.0))
    options = {"rounds": 30, "steps": 5, "batch_size": 8, "faults": attack}
    fragile = fp.simulate(b.Ditto(eta=0.1, lam=2.0), with_validation(), CLASSIFIER, **options)
    robust = dataclasses.replace(fragile.algorithm, aggregate=fp.CoordinateMedian())
    sturdy = fp.simulate(robust, with_validation(), CLASSIFIER, **options)
    assert sturdy.summary("global").mean > fragile.summary("global").mean + 0.2


def test_fedfomo_without_validation_samples_is_rejected_with_advice():
    with pytest.raises(fp.SettingError, match=r"no validation samples.*validation_share=0\.2"):
        fp.simulate(b.FedFomo(eta=0.1), federation(), CLASSIFIER, rounds=2, steps=2)


def test_ditto_lies_between_local_training_and_fedavg():
    """λ = 0 is local training; a larger λ brings the models together."""
    options = {"rounds": 10, "steps": 4, "batch_size": 8}
    local = fp.simulate(presets.local_sgd(eta=0.1), with_validation(), CLASSIFIER, **options).models
    none = fp.simulate(b.Ditto(eta=0.1, lam=0.0), with_validation(), CLASSIFIER, **options).models
    np.testing.assert_allclose(none, local, atol=1e-5)
    pulled = fp.simulate(b.Ditto(eta=0.1, lam=9.0), with_validation(), CLASSIFIER, **options)
    assert np.std(pulled.models, axis=0).max() < np.std(local, axis=0).max()


@pytest.mark.parametrize("steps", [1, 3])
def test_per_fedavg_uses_three_minibatches_per_step_in_parallel_and_in_sequence(steps):
    options = {"rounds": 3, "steps": steps, "batch_size": 8}
    method = b.PerFedAvg(alpha=0.1, beta=0.1)
    at_once = fp.simulate(method, with_validation(), CLASSIFIER, each="vmap", **options)
    in_turn = fp.simulate(method, with_validation(), CLASSIFIER, each="map", **options)
    np.testing.assert_allclose(at_once.w_global, in_turn.w_global, rtol=1e-4, atol=1e-6)


def test_fedfomo_sends_equal_models_with_equal_probability():
    """This holds with and without random exploration."""
    for epsilon in (0.0, 1.0):
        method = b.FedFomo(eta=0.1, m=1, epsilon=epsilon)
        state = method.init(np.zeros(2), 6)
        work = fp.Work(np.array([0]), np.zeros((1, 1, 1)), np.array([1]))
        chosen = [
            int(method._choose(state, work._replace(key=jax.random.key(i)), 6)[0, 0])
            for i in range(300)
        ]
        counts = np.bincount(chosen, minlength=6)
        assert counts[0] == 0
        assert counts[1:].min() > 30
