"""Parties that join after the training: ``Run.join`` and ``join_parties``."""

import dataclasses
import warnings

import jax
import numpy as np
import pytest

import fedplus as fp
from fedplus import aggregation, presets
from fedplus.check import SettingError
from fedplus.data.split import Split
from fedplus.experiments.build import build_method
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.methods import METHODS
from fedplus.models import ravel
from fedplus.simulation.join import LocalTraining, join_parties
from fedplus.simulation.minibatches import minibatches
from fedplus.simulation.setup import init_model
from small_federation import CLASSIFIER, federation, plain_loss

MLP = fp.models.mlp(4, 3, hidden=(6,))
SEED, ROUNDS, STEPS = 3, 4, 3
TRAINING = LocalTraining(STEPS, rounds=2, batch_size=8)
CANNOT_JOIN = {"l2gd", "fedfomo"}
CAN_JOIN = sorted(set(METHODS) - CANNOT_JOIN)
PRIVATE = {"fedper": "head", "fedrep": "head", "lg-fedavg": "hidden0"}
NEW = federation((20, 9, 33), seed=9).train


def build(name):
    """Return the method with the defaults of the command line; FedRep's body needs a step, too."""
    settings = {"head_steps": STEPS - 1} if name == "fedrep" else {}
    spec, source = spec_from_command("digits-robust", [name], settings)
    return build_method(spec.methods[0], MLP, source)


def train(algorithm, model=MLP, **settings):
    arguments = {"rounds": ROUNDS, "steps": STEPS, "batch_size": 8, "seed": SEED}
    parties = federation()._replace(validation=federation().test)
    return fp.simulate(algorithm, parties, model, **(arguments | settings))


def join(run, split):
    return join_parties(
        run.algorithm, run.state, run.model, split, TRAINING, rounds_before=run.rounds,
        seed=run.seed,
    )  # fmt: skip


def parameters(run, model):
    return run.parameters(np.asarray(model))


@pytest.mark.slow
@pytest.mark.parametrize("name", CAN_JOIN)
def test_a_party_gets_the_same_finite_model_alone_and_with_others(name):
    algorithm = build(name)
    w_global = init_model(MLP, jax.random.key(7))[1]
    state = algorithm.init(w_global, 5)
    first = Split.from_parties([NEW.party(0)])
    together, alone = (
        join_parties(algorithm, state, MLP, split, TRAINING, rounds_before=ROUNDS, seed=SEED)
        for split in (NEW, first)
    )
    assert together.models.shape == (3, w_global.size)
    assert np.isfinite(together.models).all()
    assert together.given_up.tolist() == [0, 0, 0]
    np.testing.assert_allclose(alone.models[0], together.models[0], rtol=1e-4, atol=1e-6)
    if METHODS[name].used_model == "global":
        np.testing.assert_array_equal(together.models, [w_global] * 3)
    elif name != "hypcluster":  # Its parties use one of the server's models.
        assert np.abs(together.models - w_global).max() > 1e-3


@pytest.mark.parametrize("name", ["fedgeomed+", "scaffold", "hypcluster", "ditto"])
def test_a_party_joins_a_run(name):
    run = train(build(name))
    alone = run.join(*NEW.party(0), steps=STEPS, rounds=2, batch_size=8)
    np.testing.assert_allclose(alone, join(run, NEW).models[0], rtol=1e-4, atol=1e-6)
    if name == "scaffold":
        np.testing.assert_array_equal(alone, run.w_global)


@pytest.mark.parametrize("aggregate", [
    aggregation.Krum(faulty=1), aggregation.TrimmedMean(0.2), aggregation.CoordinateMedian(),
    aggregation.CentredClipping(1.0),
])  # fmt: skip
def test_one_party_joins_with_every_aggregator(aggregate):
    run = train(presets.fedavg_plus(eta=0.1, sigma=0.1).replace(aggregate=aggregate))
    assert np.isfinite(run.join(*NEW.party(0), steps=2)).all()


def test_the_models_of_the_run_stay_as_they_are():
    run = train(build("fedgeomed+"))
    before = [np.array(leaf) for leaf in jax.tree.leaves(run.state)]
    join(run, NEW)
    for old, leaf in zip(before, jax.tree.leaves(run.state), strict=True):
        np.testing.assert_array_equal(old, leaf)


def test_local_sgd_starts_at_the_first_model_and_equals_plain_sgd():
    run = train(presets.local_sgd(eta=0.1), CLASSIFIER)
    joined = join(run, NEW)
    round_key, w_first = init_model(CLASSIFIER, jax.random.key(SEED))
    key = jax.random.fold_in(round_key, ROUNDS)
    for k in range(3):
        w = {name: np.array(leaf, float) for name, leaf in parameters(run, w_first).items()}
        for t in range(2):
            words = jax.random.bits(jax.random.fold_in(key, t), (3,))
            rows = minibatches(words, NEW.start, NEW.size, 8, STEPS)[k]
            for batch in np.asarray(rows):
                _, gradient = plain_loss(w, NEW.x[batch], NEW.y[batch])
                w = {name: w[name] - 0.1 * gradient[name] for name in w}
        expected = ravel(w).w
        np.testing.assert_allclose(joined.models[k], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["fedgeomed+", "ditto"])
def test_a_new_party_trains_with_the_learning_rate_of_the_first_round(name):
    """The learning rate of the run has decayed to 0 by then; other settings are those of its end."""
    kind = METHODS[name]
    rest = {"lam": fp.schedules.Linear(0.4, 0.1, rounds=2)} | (
        {"sigma": 0.1} if "+" in name else {}
    )
    run = train(kind(eta=fp.schedules.Cosine(0.1, 0.0, rounds=2), **rest))
    last = dataclasses.replace(run, algorithm=kind(eta=0.1, **rest | {"lam": 0.1}))
    expected, started = join(last, NEW).models, run.w_global
    np.testing.assert_array_equal(join(run, NEW).models, expected)
    assert np.abs(expected - started).max() > 1e-3


def test_a_new_party_needs_a_learning_rate():
    run = train(presets.fedavgm(eta=fp.schedules.Linear(0.0, 0.1, rounds=2)))
    with pytest.raises(
        SettingError, match=r"^local\.eta and .* must be > 0 if parties join .* got 0"
    ):
        run.join(*NEW.party(0), steps=2)


@pytest.mark.parametrize("name", PRIVATE)
def test_private_layers_start_at_the_first_model_and_the_others_at_the_global_model(name):
    """With a learning rate near 0 a party's model stays where it starts."""
    algorithm = build(name)
    run = train(algorithm, steps=11)  # FedRep trains the head in the first 10.
    still = dataclasses.replace(run, algorithm=algorithm.replace(eta=1e-9))
    model = parameters(run, join(still, NEW).models[1])
    w_first = parameters(run, init_model(MLP, jax.random.key(SEED))[1])
    for layer in model:
        start = w_first if layer == PRIVATE[name] else run.parameters()
        for leaf, expected in zip(*map(jax.tree.leaves, (model[layer], start[layer])), strict=True):
            np.testing.assert_allclose(leaf, expected, atol=1e-6)


@pytest.mark.parametrize("name", sorted(CANNOT_JOIN))
def test_a_method_whose_parties_need_each_other_says_so(name):
    run = train(build(name))
    with pytest.raises(SettingError, match="needs the models of the other parties"):
        run.join(*NEW.party(0), steps=1)


@pytest.mark.parametrize(
    ("x", "y", "match"),
    [
        (np.ones((5, 3)), np.zeros(5, int), r"must be of shape \(4,\)"),
        (np.ones((5, 4)), np.zeros(4, int), "one label per sample"),
        (np.ones((5, 4)), np.full(5, 7), "whole numbers from 0 to 2"),
        (np.ones((0, 4)), np.zeros(0, int), "at least one sample"),
        (np.full((5, 4), np.nan), np.zeros(5, int), "finite"),
    ],
)
def test_samples_that_do_not_fit_are_rejected_in_one_line(x, y, match):
    run = train(presets.fedavg(eta=0.1), rounds=1)
    with pytest.raises(SettingError, match=match) as caught:
        run.join(x, y, steps=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["steps", "rounds", "batch_size"])
def test_invalid_numbers_are_rejected(name):
    run = train(presets.fedavg(eta=0.1), rounds=1)
    with pytest.raises(SettingError, match=f"{name} must be a whole number"):
        run.join(*NEW.party(0), **({"steps": 1} | {name: 0}))


def test_more_steps_and_more_rounds_change_the_model():
    run, party = train(build("fedavg+")), NEW.party(0)
    models = [
        run.join(*party, steps=steps, rounds=rounds) for steps, rounds in ((2, 1), (4, 1), (2, 2))
    ]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(models[a] - models[b]).max() > 1e-4
    np.testing.assert_array_equal(models[0], run.join(*party, steps=2))


@pytest.mark.parametrize("name", ["fedgeomed+", "scaffold", "fedavg-ft"])
def test_a_resumed_run_gives_a_new_party_the_same_model(name, tmp_path):
    algorithm = build(name)
    whole = train(algorithm, cohort=3)
    train(algorithm, cohort=3, rounds=2, checkpoint=tmp_path)
    resumed = train(algorithm, cohort=3, checkpoint=tmp_path, resume=True)
    for run in (resumed, train(algorithm, cohort=3, checkpoint=tmp_path, resume=True)):
        np.testing.assert_array_equal(join(whole, NEW).models, join(run, NEW).models)


def test_steps_that_always_diverge_are_warned_of_in_one_line():
    run = train(build("fedavg+"))
    x, y = NEW.party(0)
    with pytest.warns(UserWarning, match="diverged in all 2 rounds") as caught:
        model = run.join(1e6 * x, y, steps=STEPS, rounds=2)
    assert "\n" not in str(caught[0].message)
    assert "smaller eta" in str(caught[0].message)
    np.testing.assert_allclose(model, run.w_global, rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.join(x, y, steps=STEPS, rounds=2)
