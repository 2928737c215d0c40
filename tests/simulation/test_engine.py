"""The engine equals a plain NumPy loop, and does not depend on pauses, lanes or memory layout."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedplus as fp
from fedplus import baselines, presets
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


def unflat(w):
    return {"bias": w[:3], "weight": w[3:].reshape(4, 3)}


def plain_run(
    parties, *, seed, rounds, cohort, steps, batch, lam, sigma=0.0, eta=lambda t: ETA, joins=False
):
    """Run Algorithm 1 with the mean over the active parties, as a loop over parties and steps.

    Only the random draws, S^t and the rows of the minibatches, come from the engine.
    """
    train = parties.train
    init_key, round_key = jax.random.split(jax.random.key(seed))
    w_global = flat(jax.tree.map(np.asarray, CLASSIFIER.init(init_key))).astype(float)
    w_local = np.tile(w_global, (parties.parties, 1))
    joined = set(range(parties.parties))
    if joins:
        joined = set()
    for t in range(rounds):
        kappa = 1 / (1 + eta(t) * sigma)
        cohort_key, batch_key, _, _ = jax.random.split(jax.random.fold_in(round_key, t), 4)
        chosen, _ = Uniform(cohort)(cohort_key, jnp.array(t), parties.parties)
        words = jax.random.bits(batch_key, (cohort,))
        for word, k in zip(words, np.asarray(chosen), strict=True):
            draw = minibatches(word, jnp.asarray(train.start[k]), jnp.asarray(train.size[k]), batch)
            own = w_local[k] if int(k) in joined else w_global
            joined.add(int(k))
            w = (1 - lam) * own + lam * w_global
            for i in range(steps(k)):
                rows = np.asarray(draw(jnp.int32(i)))
                _, g = plain_loss(unflat(w), train.x[rows], train.y[rows])
                w = kappa * (w - eta(t) * flat(g)) + (1 - kappa) * w_global
            w_local[k] = w
        w_global = w_local[np.asarray(chosen)].mean(0)
    return w_global, w_local


@pytest.mark.parametrize("each", ["vmap", "map"])
@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"steps": 3}, lambda k: 3),
        ({"steps": [1, 4, 2, 3, 5]}, lambda k: [1, 4, 2, 3, 5][k]),
        ({"epochs": 2}, lambda k: 2 * int(np.ceil(federation().train.size[k] / 8))),
        ({"epochs": 0.5}, lambda k: int(np.ceil(0.5 * federation().train.size[k] / 8))),
    ],
)
def test_fedavg_is_the_plain_loop(settings, steps, each):
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
        **settings,
    )
    expected, _ = plain_run(parties, seed=5, rounds=ROUNDS, cohort=3, steps=steps, batch=8, lam=1.0)
    np.testing.assert_allclose(run.w_global, expected, rtol=2e-4, atol=2e-5)


def test_fedprox_and_local_training_are_the_plain_loop():
    parties = federation()
    settings = {"rounds": ROUNDS, "cohort": 2, "steps": 4, "batch_size": 6, "seed": 1}
    plain = {"seed": 1, "rounds": ROUNDS, "cohort": 2, "steps": lambda k: 4, "batch": 6}
    prox = fp.simulate(presets.fedprox(eta=ETA, sigma=1.0), parties, CLASSIFIER, **settings)
    expected, _ = plain_run(parties, lam=1.0, sigma=1.0, **plain)
    np.testing.assert_allclose(prox.w_global, expected, rtol=2e-4, atol=2e-5)
    local = fp.simulate(presets.local_sgd(eta=ETA), parties, CLASSIFIER, **settings)
    _, expected = plain_run(parties, lam=0.0, **plain)
    np.testing.assert_allclose(local.models, expected, rtol=2e-4, atol=2e-5)


def test_schedules_are_resolved_in_every_round_and_parties_start_at_the_current_model():
    """The method has personal models around the mean of the active ones, and a decreasing η."""
    parties = federation()
    settings = {"rounds": ROUNDS, "cohort": 2, "steps": 4, "batch_size": 6, "seed": 1}
    local = fp.LocalSolve(fp.Anchor(), eta=fp.schedules.Inverse(0.2, 0.5), sigma=1.0)
    run = fp.simulate(fp.FedPlus(local, fp.Mean(), "active"), parties, CLASSIFIER, **settings)
    expected, w_local = plain_run(
        parties, seed=1, rounds=ROUNDS, cohort=2, steps=lambda k: 4, batch=6, lam=0.0, sigma=1.0,
        eta=lambda t: 0.2 / (1 + 0.5 * t), joins=True,
    )  # fmt: skip
    np.testing.assert_allclose(run.w_global, expected, rtol=2e-4, atol=2e-5)
    joined = np.flatnonzero(run.state.joined)
    np.testing.assert_allclose(run.models[joined], w_local[joined], rtol=2e-4, atol=2e-5)


GEO = {"eta": ETA, "sigma": 1.0, "delta": 0.05}
SETTINGS = {"rounds": 9, "cohort": 3, "steps": 3, "batch_size": 8}


def test_evaluations_do_not_change_the_run():
    """Runs with an evaluation every 1, 4 or 9 rounds are equal bit by bit."""
    runs = [
        fp.simulate(
            presets.fedgeomed_plus(**GEO),
            federation(),
            CLASSIFIER,
            evaluate_every=every,
            **SETTINGS,
        )
        for every in (1, 4, 9)
    ]
    assert [len(r.evaluations["round"]) for r in runs] == [9, 3, 1]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.models, runs[0].models)
        np.testing.assert_array_equal(run.w_global, runs[0].w_global)
        for name, values in run.figures.items():
            np.testing.assert_array_equal(values, runs[0].figures[name])


def test_the_seed_determines_the_run():
    one, same, other = (
        fp.simulate(presets.fedcomed_plus(**GEO), federation(), CLASSIFIER, seed=seed, **SETTINGS)
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one.models, same.models)
    assert not np.allclose(one.models, other.models)
    assert (one.figures["cohort"] != other.figures["cohort"]).any()


def test_the_runs_of_a_sweep_are_the_single_runs():
    methods = [presets.fedgeomed_plus(eta=ETA, sigma=1.0, delta=delta) for delta in (0.01, 0.1)]
    runs = fp.sweep(methods, federation(), CLASSIFIER, seeds=[0, 7], **SETTINGS)
    single_runs = [
        fp.simulate(method, federation(), CLASSIFIER, seed=seed, **SETTINGS)
        for method in methods
        for seed in (0, 7)
    ]
    for run, single in zip(runs, single_runs, strict=True):
        assert run.seed == single.seed
        np.testing.assert_allclose(run.models, single.models, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(run.figures["cohort"], single.figures["cohort"])
        np.testing.assert_allclose(
            run.evaluations["personal_loss"], single.evaluations["personal_loss"], rtol=1e-4
        )


def test_an_optax_optimizer_replaces_the_local_step():
    """Optax's SGD equals the built-in step, and Adam learns."""
    local = fp.LocalSolve(fp.L2(0.05), eta=ETA, sigma=1.0, optimizer=optax.sgd)
    same = fp.simulate(fp.FedPlus(local), federation(), CLASSIFIER, **SETTINGS)
    plain = fp.simulate(presets.fedgeomed_plus(**GEO), federation(), CLASSIFIER, **SETTINGS)
    np.testing.assert_allclose(same.models, plain.models, rtol=1e-5, atol=1e-6)
    local = fp.LocalSolve(fp.Anchor(), eta=0.05, lam=1.0, optimizer="adam")
    adam = fp.simulate(
        fp.FedPlus(local, fp.Mean()), federation(), CLASSIFIER, rounds=40, steps=5, batch_size=8
    )
    assert adam.summary().mean > 0.85


def test_parties_may_have_ten_samples_or_a_hundred_thousand():
    """Each party does its own number of steps; nothing is padded to the largest party."""
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
    available = np.zeros((1, 5), bool)
    available[0, [1, 4]] = True
    for method in (presets.fedavg(eta=ETA), presets.fedgeomed_plus(**GEO)):
        run = fp.simulate(
            method, parties, CLASSIFIER, rounds=4, steps=2, batch_size=8,
            cohort=Trace(jnp.array(available), 3), path=[1.0],  # FedAvg keeps all models for it.
        )  # fmt: skip
        first = fp.simulate(presets.local_sgd(eta=1e-9), parties, CLASSIFIER, rounds=1, steps=1)
        moved = abs(run.state.w_local - first.models).max(1) > 1e-4
        assert moved.tolist() == [False, True, False, False, True]
        if method.over == "active":
            mean = np.asarray(run.state.w_local)[[1, 4]].mean(0)
            np.testing.assert_allclose(run.w_global, mean, rtol=1e-5, atol=1e-6)
            assert run.figures["dropped"].tolist() == [1] * 4


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "rfa", "coordinate_median"])
def test_stateless_methods_hold_only_the_cohorts_rows_and_have_the_same_result(name):
    """The results are equal bit by bit, with weights, faults, absent parties and stragglers."""
    available = np.random.default_rng(0).random((7, 5)) < 0.7
    method = getattr(presets, name)(**({"sigma": 1.0} if name == "fedprox" else {}), eta=ETA)
    assert method.is_stateless()
    settings = {
        "rounds": 7, "steps": 3, "batch_size": 8, "evaluate_every": 3, "weights": "size",
        "cohort": Trace(jnp.array(available), 3), "stragglers": Stragglers(0.4, drop=True),
        "faults": Fault(parties=(2,), attack=sign_flip()),
    }  # fmt: skip
    run = fp.simulate(method, federation(), CLASSIFIER, **settings)
    full = fp.simulate(method, federation(), CLASSIFIER, path=[1.0], **settings)
    assert run.state.w_local.shape == (3, 15)
    assert full.state.w_local.shape == (5, 15)
    np.testing.assert_array_equal(run.w_global, full.w_global)
    assert run.models.shape == (5, 15)
    np.testing.assert_array_equal(run.models, full.models)
    np.testing.assert_array_equal(run.parameters(4)["bias"], run.w_global[:3])
    for records in ("figures", "evaluations"):
        for name, values in getattr(run, records).items():
            np.testing.assert_array_equal(values, getattr(full, records)[name], err_msg=name)


def test_methods_that_use_the_parties_own_models_are_not_stateless():
    fedavg = presets.fedavg(eta=ETA)
    assert not dataclasses.replace(fedavg, over="all").is_stateless()
    assert not presets.fedavg_plus(eta=ETA, sigma=1.0).is_stateless()
    local = dataclasses.replace(fedavg.local, lam=0.5)
    assert not dataclasses.replace(fedavg, local=local).is_stateless()


def test_rounds_without_available_parties_change_nothing():
    cohort = Trace(jnp.zeros((1, 5), bool), 2)
    run = fp.simulate(
        presets.fedavg(eta=ETA), federation(), CLASSIFIER, rounds=2, steps=2, cohort=cohort
    )
    init_key, _ = jax.random.split(jax.random.key(0))
    start = flat(jax.tree.map(np.asarray, jax.jit(CLASSIFIER.init)(init_key)))
    np.testing.assert_array_equal(run.w_global, start)


def test_dropped_stragglers_are_left_out_and_others_are_not():
    settings = {"rounds": 5, "steps": 6, "batch_size": 8, "cohort": 4}
    late = Stragglers(0.5, drop=True)
    dropping = fp.simulate(
        presets.fedavg(eta=ETA), federation(), CLASSIFIER, stragglers=late, **settings
    )
    assert dropping.figures["dropped"].tolist() == [2] * 5
    keeping = fp.simulate(
        presets.fedavg(eta=ETA), federation(), CLASSIFIER, stragglers=Stragglers(0.5), **settings
    )
    assert keeping.figures["dropped"].tolist() == [0] * 5
    np.testing.assert_array_equal(dropping.figures["steps"], keeping.figures["steps"])
    assert not np.allclose(dropping.w_global, keeping.w_global)


def unaligned(array):
    """Return a copy whose memory is not aligned."""
    buffer = np.empty(array.nbytes + 4, np.uint8)
    copy = buffer[4:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_unaligned_data_of_the_same_shape_compiles_nothing_again():
    data = federation()
    moved = data._replace(
        train=data.train._replace(x=unaligned(data.train.x), y=unaligned(data.train.y)),
        test=data.test._replace(x=unaligned(data.test.x), y=unaligned(data.test.y)),
    )
    method = presets.fedavg(eta=0.1)
    one = fp.simulate(method, data, CLASSIFIER, rounds=3, steps=2)
    programs = run_rounds._cache_size(), evaluate_parties._cache_size()
    other = fp.simulate(method, moved, CLASSIFIER, rounds=3, steps=2)
    assert (run_rounds._cache_size(), evaluate_parties._cache_size()) == programs
    assert np.array_equal(one.models, other.models)


def test_a_sweep_over_lam_may_end_at_1():
    """Only the method with λ = 1 is stateless on its own."""
    local = fp.LocalSolve(fp.Anchor(), eta=ETA, sigma=1.0)
    methods = [fp.FedPlus(local, fp.Mean(), over="active").replace(lam=lam) for lam in (0.5, 1.0)]
    settings = SETTINGS | {"cohort": 2}
    for run, method in zip(
        fp.sweep(methods, federation(), CLASSIFIER, **settings), methods, strict=True
    ):
        single = fp.simulate(method, federation(), CLASSIFIER, **settings)
        np.testing.assert_allclose(run.models, single.models, rtol=1e-4, atol=1e-6)


def test_first_states_may_depend_on_schedules():
    """APFL's α_k and HypCluster's noise begin at the values of round 0."""
    fall = fp.schedules.Linear(0.4, 0.0, rounds=5)
    for method, number in (
        (baselines.APFL(eta=ETA, alpha=fall), baselines.APFL(eta=ETA, alpha=0.4)),
        (baselines.HypCluster(eta=ETA, spread=fall), baselines.HypCluster(eta=ETA, spread=0.4)),
    ):
        one, other = (
            fp.simulate(m, federation(), CLASSIFIER, rounds=2, steps=2) for m in (method, number)
        )
        np.testing.assert_array_equal(one.models, other.models)
