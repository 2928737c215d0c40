"""The engine against a plain loop in NumPy, and against itself in other guises."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedplus as fp
from fedplus import presets
from fedplus.simulation import Fault, Stragglers, Trace, Uniform
from fedplus.simulation.engine import run_rounds
from fedplus.simulation.evaluate import evaluate_parties
from fedplus.simulation.faults import sign_flip
from fedplus.simulation.minibatches import minibatches
from small_federation import CLASSIFIER, federation, plain_loss

ETA = 0.1
ROUNDS = 6


def flat(params):
    return np.concatenate([params["bias"], params["weight"].ravel()])


def shaped(w):
    return {"bias": w[:3], "weight": w[3:].reshape(4, 3)}


def plain_run(parties, *, seed, rounds, cohort, steps, batch, lam, sigma=0.0, theta=None):
    """Algorithm 1 with the mean over the active parties, as a loop over parties and steps.

    Only the random draws are the engine's: S^t and the minibatches' rows.
    """
    train = parties.train
    for_init, for_rounds = jax.random.split(jax.random.key(seed))
    w_global = flat(jax.tree.map(np.asarray, CLASSIFIER.init(for_init))).astype(float)
    w_local = np.tile(w_global, (parties.parties, 1))
    kappa = 1 / (1 + ETA * sigma)
    for t in range(rounds):
        for_cohort, for_batches, _, _ = jax.random.split(jax.random.fold_in(for_rounds, t), 4)
        chosen, _ = Uniform(cohort)(for_cohort, jnp.array(t), parties.parties)
        words = jax.random.bits(for_batches, (cohort,))
        for word, k in zip(words, np.asarray(chosen), strict=True):
            made = minibatches(word, jnp.asarray(train.start[k]), jnp.asarray(train.size[k]), batch)
            w = (1 - lam) * w_local[k] + lam * w_global
            for i in range(steps(k)):
                rows = np.asarray(made(jnp.int32(i)))
                _, g = plain_loss(shaped(w), train.x[rows], train.y[rows])
                w = kappa * (w - ETA * flat(g)) + (1 - kappa) * w_global
            w_local[k] = w
        w_global = w_local[np.asarray(chosen)].mean(0)
    return w_global, w_local


@pytest.mark.parametrize("each", ["vmap", "map"])
@pytest.mark.parametrize(
    ("asked", "steps"),
    [
        ({"steps": 3}, lambda k: 3),
        ({"steps": [1, 4, 2, 3, 5]}, lambda k: [1, 4, 2, 3, 5][k]),
        ({"epochs": 2}, lambda k: 2 * int(np.ceil(federation().train.size[k] / 8))),
        ({"epochs": 0.5}, lambda k: int(np.ceil(0.5 * federation().train.size[k] / 8))),
    ],
)
def test_fedavg_is_the_plain_loop(asked, steps, each):
    parties = federation()
    method = presets.fedavg(eta=ETA)
    run = fp.simulate(
        method,
        parties,
        CLASSIFIER,
        rounds=ROUNDS,
        cohort=3,
        batch_size=8,
        seed=5,
        each=each,
        **asked,
    )
    expected, _ = plain_run(parties, seed=5, rounds=ROUNDS, cohort=3, steps=steps, batch=8, lam=1.0)
    np.testing.assert_allclose(run.w_global, expected, rtol=2e-4, atol=2e-5)


def test_fedprox_and_local_training_are_the_plain_loop():
    parties = federation()
    asked = {"rounds": ROUNDS, "cohort": 2, "steps": 4, "batch_size": 6, "seed": 1}
    plain = {"seed": 1, "rounds": ROUNDS, "cohort": 2, "steps": lambda k: 4, "batch": 6}
    prox = fp.simulate(presets.fedprox(eta=ETA, sigma=1.0), parties, CLASSIFIER, **asked)
    expected, _ = plain_run(parties, lam=1.0, sigma=1.0, **plain)
    np.testing.assert_allclose(prox.w_global, expected, rtol=2e-4, atol=2e-5)
    local = fp.simulate(presets.local_sgd(eta=ETA), parties, CLASSIFIER, **asked)
    _, expected = plain_run(parties, lam=0.0, **plain)
    np.testing.assert_allclose(local.models, expected, rtol=2e-4, atol=2e-5)


GEO = {"eta": ETA, "sigma": 1.0, "delta": 0.05}
ASKED = {"rounds": 9, "cohort": 3, "steps": 3, "batch_size": 8}


def test_pauses_change_nothing():
    """Bit by bit: evaluated after every round, after every fourth, and at the end alone."""
    runs = [
        fp.simulate(
            presets.fedgeomed_plus(**GEO), federation(), CLASSIFIER, evaluate_every=every, **ASKED
        )
        for every in (1, 4, 9)
    ]
    assert [len(r.evaluations["round"]) for r in runs] == [9, 3, 1]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.models, runs[0].models)
        np.testing.assert_array_equal(run.w_global, runs[0].w_global)
        for name, values in run.figures.items():
            np.testing.assert_array_equal(values, runs[0].figures[name])


def test_same_seed_same_run_other_seed_another():
    one, same, other = (
        fp.simulate(presets.fedcomed_plus(**GEO), federation(), CLASSIFIER, seed=seed, **ASKED)
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one.models, same.models)
    assert not np.allclose(one.models, other.models)
    assert (one.figures["cohort"] != other.figures["cohort"]).any()


def test_several_settings_and_seeds_at_once_are_each_by_itself():
    methods = [presets.fedgeomed_plus(eta=ETA, sigma=1.0, delta=delta) for delta in (0.01, 0.1)]
    runs = fp.sweep(methods, federation(), CLASSIFIER, seeds=[0, 7], **ASKED)
    alone = [
        fp.simulate(method, federation(), CLASSIFIER, seed=seed, **ASKED)
        for method in methods
        for seed in (0, 7)
    ]
    for run, single in zip(runs, alone, strict=True):
        assert run.seed == single.seed
        np.testing.assert_allclose(run.models, single.models, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(run.figures["cohort"], single.figures["cohort"])
        np.testing.assert_allclose(
            run.evaluations["personal_loss"], single.evaluations["personal_loss"], rtol=1e-4
        )


def test_an_optax_optimiser_takes_the_place_of_the_step():
    """Adam learns here, and with one plain SGD written as Optax's it is the plain step."""
    local = fp.LocalSolve(fp.L2(0.05), eta=ETA, sigma=1.0, optimizer=optax.sgd(ETA))
    same = fp.simulate(fp.FedPlus(local), federation(), CLASSIFIER, **ASKED)
    plain = fp.simulate(presets.fedgeomed_plus(**GEO), federation(), CLASSIFIER, **ASKED)
    np.testing.assert_allclose(same.models, plain.models, rtol=1e-5, atol=1e-6)
    local = fp.LocalSolve(fp.Anchor(), eta=0.05, lam=1.0, optimizer=optax.adam(0.05))
    adam = fp.simulate(
        fp.FedPlus(local, fp.Mean()), federation(), CLASSIFIER, rounds=40, steps=5, batch_size=8
    )
    assert adam.summary().mean > 0.85


def test_parties_from_ten_samples_to_a_hundred_thousand():
    """No padding: the largest party's steps and rows are its own affair."""
    sizes = (13, 40, 125, 1_250, 125_000)
    parties = federation(sizes)
    run = fp.simulate(
        presets.fedavg(eta=0.05), parties, CLASSIFIER, rounds=3, cohort=2, epochs=1, batch_size=10,
        weights="size",
    )  # fmt: skip
    expected = np.ceil(parties.train.size / 10)
    np.testing.assert_array_equal(run.figures["steps"], expected[run.figures["cohort"]])
    assert run.summary().pooled > 0.6


def test_absent_parties_keep_their_models_and_do_not_count():
    parties = federation()
    there = np.zeros((1, 5), bool)
    there[0, [1, 4]] = True
    for method in (presets.fedavg(eta=ETA), presets.fedgeomed_plus(**GEO)):
        run = fp.simulate(
            method, parties, CLASSIFIER, rounds=4, steps=2, batch_size=8,
            cohort=Trace(jnp.array(there), 3), path=[1.0],  # So that FedAvg, too, keeps all models.
        )  # fmt: skip
        first = fp.simulate(presets.local_sgd(eta=1e-9), parties, CLASSIFIER, rounds=1, steps=1)
        moved = abs(run.state.w_local - first.models).max(1) > 1e-4
        assert moved.tolist() == [False, True, False, False, True]
        if method.over == "active":
            mean = np.asarray(run.state.w_local)[[1, 4]].mean(0)
            np.testing.assert_allclose(run.w_global, mean, rtol=1e-5, atol=1e-6)
            assert run.figures["dropped"].tolist() == [1] * 4


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "rfa", "coordinate_median"])
def test_methods_whose_parties_keep_nothing_hold_the_cohorts_rows_alone(name):
    """And are otherwise the same, bit by bit: with weights, faults, absent parties and stragglers."""
    there = np.random.default_rng(0).random((7, 5)) < 0.7
    method = getattr(presets, name)(**({"sigma": 1.0} if name == "fedprox" else {}), eta=ETA)
    assert method.is_stateless()
    asked = {
        "rounds": 7, "steps": 3, "batch_size": 8, "evaluate_every": 3, "weights": "size",
        "cohort": Trace(jnp.array(there), 3), "stragglers": Stragglers(0.4, drop=True),
        "faults": Fault(parties=(2,), attack=sign_flip()),
    }  # fmt: skip
    run = fp.simulate(method, federation(), CLASSIFIER, **asked)
    kept = fp.simulate(method, federation(), CLASSIFIER, path=[1.0], **asked)
    assert run.state.w_local.shape == (3, 15)
    assert kept.state.w_local.shape == (5, 15)
    np.testing.assert_array_equal(run.w_global, kept.w_global)
    assert run.models.shape == (5, 15)
    np.testing.assert_array_equal(run.models, kept.models)
    np.testing.assert_array_equal(run.parameters(4)["bias"], run.w_global[:3])
    for figures in ("figures", "evaluations"):
        for what, values in getattr(run, figures).items():
            np.testing.assert_array_equal(values, getattr(kept, figures)[what], err_msg=what)


def test_which_methods_are_stateless():
    fedavg = presets.fedavg(eta=ETA)
    assert not dataclasses.replace(fedavg, over="all").is_stateless()
    assert not presets.fedavg_plus(eta=ETA, sigma=1.0).is_stateless()
    local = dataclasses.replace(fedavg.local, lam=0.5)
    assert not dataclasses.replace(fedavg, local=local).is_stateless()


def test_nobody_there_changes_nothing():
    cohort = Trace(jnp.zeros((1, 5), bool), 2)
    run = fp.simulate(
        presets.fedavg(eta=ETA), federation(), CLASSIFIER, rounds=2, steps=2, cohort=cohort
    )
    for_init, _ = jax.random.split(jax.random.key(0))
    start = flat(jax.tree.map(np.asarray, jax.jit(CLASSIFIER.init)(for_init)))
    np.testing.assert_array_equal(run.w_global, start)


def test_dropped_stragglers_are_left_out_and_kept_ones_are_not():
    asked = {"rounds": 5, "steps": 6, "batch_size": 8, "cohort": 4}
    late = Stragglers(0.5, drop=True)
    dropping = fp.simulate(
        presets.fedavg(eta=ETA), federation(), CLASSIFIER, stragglers=late, **asked
    )
    assert dropping.figures["dropped"].tolist() == [2] * 5
    keeping = fp.simulate(
        presets.fedavg(eta=ETA), federation(), CLASSIFIER, stragglers=Stragglers(0.5), **asked
    )
    assert keeping.figures["dropped"].tolist() == [0] * 5
    np.testing.assert_array_equal(dropping.figures["steps"], keeping.figures["steps"])
    assert not np.allclose(dropping.w_global, keeping.w_global)


def shifted(array):
    """The same numbers, at an odd place in memory."""
    room = np.empty(array.nbytes + 4, np.uint8)
    moved = room[4:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def test_data_of_the_same_shape_compiles_nothing_anew_wherever_it_lies():
    data = federation()
    elsewhere = data._replace(
        train=data.train._replace(x=shifted(data.train.x), y=shifted(data.train.y)),
        test=data.test._replace(x=shifted(data.test.x), y=shifted(data.test.y)),
    )
    method = presets.fedavg(eta=0.1)
    one = fp.simulate(method, data, CLASSIFIER, rounds=3, steps=2)
    programs = run_rounds._cache_size(), evaluate_parties._cache_size()
    other = fp.simulate(method, elsewhere, CLASSIFIER, rounds=3, steps=2)
    assert (run_rounds._cache_size(), evaluate_parties._cache_size()) == programs
    assert np.array_equal(one.models, other.models)
