"""Evaluations and round statistics follow their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus import presets
from fedplus.models import ravel
from fedplus.models.task import BINARY, CLASSIFICATION, REGRESSION
from fedplus.simulation import majority_class_accuracy
from fedplus.simulation.evaluate import (
    constant_answer_scores,
    evaluate_parties,
    split_into_blocks,
    summary,
)
from fedplus.simulation.recorder import theorem_1_applies
from fedplus.simulation.setup import set_up
from small_federation import CLASSIFIER, apply, federation, plain_loss

PATH = (0.0, 0.25, 1.0)
SIZES = (30, 7, 45, 12, 700)
GEO = {"eta": 0.1, "sigma": 1.0, "delta": 0.05}


@pytest.fixture(scope="module")
def run():
    return fp.simulate(
        presets.fedgeomed_plus(**GEO), federation(SIZES), CLASSIFIER, rounds=8, steps=4, cohort=3,
        batch_size=8, evaluate_every=4, path=PATH, objective=True,
    )  # fmt: skip


def unflat(w):
    w = np.asarray(w)
    return {"bias": w[:3], "weight": w[3:].reshape(4, 3)}


def plain_scores(split, models):
    """Return loss and accuracy of each party's rows under its own model."""
    scores = []
    for k in range(len(split.size)):
        x, y = split.party(k)
        correct = apply(unflat(models[k]), x).argmax(1) == y
        scores.append((plain_loss(unflat(models[k]), x, y)[0].mean(), correct.mean()))
    return np.array(scores).T


def test_personal_and_global_scores_are_over_each_partys_own_samples(run):
    parties = run.federation
    n = parties.parties
    for which, models in (("personal", run.models), ("global", np.tile(run.w_global, (n, 1)))):
        loss, score = plain_scores(parties.test, models)
        np.testing.assert_allclose(run.evaluations[f"{which}_loss"][-1], loss, rtol=1e-4)
        np.testing.assert_allclose(run.evaluations[f"{which}_score"][-1], score, rtol=1e-6)
    assert run.evaluations["round"].tolist() == [4, 8]


def test_the_path_leads_from_the_personal_to_the_global_model(run):
    score = run.evaluations["path_score"]
    assert score.shape == (2, 3, 5)
    np.testing.assert_allclose(score[:, 0], run.evaluations["personal_score"], rtol=1e-6)
    np.testing.assert_allclose(score[:, -1], run.evaluations["global_score"], rtol=1e-6)


def test_the_path_of_fedavg_begins_at_the_locally_trained_models(run):
    """Its personal models equal w̃, so a path from them would be a point (the paper's Figure 3)."""
    fedavg = fp.simulate(
        presets.fedavg(eta=0.1), run.federation, run.model, rounds=2, steps=3, path=(0.0, 0.3, 1.0)
    )
    for i, lam in enumerate((0.0, 0.3, 1.0)):
        models = (1 - lam) * fedavg.state.w_local + lam * fedavg.w_global
        _, score = plain_scores(run.federation.test, np.asarray(models))
        np.testing.assert_allclose(fedavg.evaluations["path_score"][-1, i], score, rtol=1e-6)


def test_the_objective_is_f_sigma(run):
    """The recorded value equals ``Objective.f_sigma`` over all training samples."""
    train = run.federation.train
    losses, _ = plain_scores(train, run.state.w_local)
    objective = fp.Objective(
        fp.L2(GEO["delta"]), GEO["sigma"], jnp.asarray(losses), loss=lambda w, data: data
    )
    expected = objective.f_sigma(run.state.w_local, run.state.w_global)
    assert run.evaluations["objective"][-1] == pytest.approx(float(expected), rel=1e-4)


def test_transfer_evaluates_every_model_on_every_partys_data(run):
    transfer = run.transfer()
    test = run.federation.test
    for k in range(5):
        _, score = plain_scores(test, np.tile(run.models[k], (5, 1)))
        np.testing.assert_allclose(transfer[k], score, rtol=1e-6)


def test_v_norm_follows_its_formula_and_aggregation_changes_no_personal_model(run):
    """‖v_k‖ = max(‖w_k − w̃‖ − δ, 0) in FedGeoMed+."""
    gap = np.linalg.norm(run.models - run.w_global, axis=1)
    expected = np.maximum(gap - GEO["delta"], 0)
    np.testing.assert_allclose(run.evaluations["v_norm"][-1], expected, rtol=1e-4, atol=1e-6)
    last = run.figures["cohort"][-1]
    np.testing.assert_allclose(run.figures["v_norm"][-1], expected[last], rtol=1e-4, atol=1e-6)
    assert run.figures["change_std"].max() == 0
    assert run.figures["converged"].all()


def test_fedavg_replaces_each_model_by_the_mean():
    """After one round of all parties the change is w̃ minus each party's locally trained model."""
    parties = federation(SIZES)
    settings = {"rounds": 1, "steps": 4, "batch_size": 8}
    local = fp.simulate(presets.local_sgd(eta=0.1), parties, CLASSIFIER, **settings)
    fedavg = fp.simulate(presets.fedavg(eta=0.1), parties, CLASSIFIER, **settings)
    change = local.models.mean(0) - local.models
    np.testing.assert_allclose(fedavg.figures["change_mean"][0], change.mean(1), atol=1e-6)
    np.testing.assert_allclose(fedavg.figures["change_std"][0], change.std(1), rtol=1e-3)


def test_blocks_cover_every_row_once():
    parties = federation((3, 1000, 9, 17, 400))
    blocks, rows = split_into_blocks(parties.train)
    covered = np.concatenate(
        [np.arange(f, f + c) for f, c in zip(blocks.first, blocks.filled, strict=True)]
    )
    np.testing.assert_array_equal(np.sort(covered), np.arange(len(parties.train.x)))
    models = jnp.asarray(np.random.default_rng(0).normal(size=(5, 15)), jnp.float32)
    loss, score = plain_scores(parties.train, models)
    evaluated = evaluate_parties(CLASSIFIER, rows, blocks, models)
    np.testing.assert_allclose(evaluated.loss, loss, rtol=1e-4)
    np.testing.assert_allclose(evaluated.score, score, rtol=1e-6)


def test_a_summary_follows_its_definitions():
    rng = np.random.default_rng(0)
    score, size = rng.uniform(size=25), rng.integers(1, 100, 25)
    result = summary(score, size)
    assert result.mean == pytest.approx(score.mean())
    assert result.pooled == pytest.approx((score * size).sum() / size.sum())
    assert result.worst_decile == pytest.approx(np.sort(score)[:2].mean())
    assert result.std == pytest.approx(score.std())
    assert summary(score, size, "lower").worst_decile == pytest.approx(np.sort(score)[-2:].mean())


def test_majority_class_predicts_the_most_frequent_training_label(run):
    train, test = run.federation.train, run.federation.test
    accuracy = majority_class_accuracy(train, test)
    for k in range(5):
        most_frequent = np.bincount(train.party(k)[1]).argmax()
        assert accuracy[k] == np.mean(test.party(k)[1] == most_frequent)


def constant_scores(federation, task, answer):
    """Yield each party's mean test score for a constant prediction from its training labels."""
    for k in range(federation.parties):
        y = federation.test.party(k)[1]
        yield np.mean(task.score(jnp.asarray(answer(federation.train.party(k)[1], len(y))), y))


@pytest.mark.parametrize("task", [CLASSIFICATION, BINARY, REGRESSION], ids=lambda task: task.name)
def test_the_constant_answer_uses_each_partys_own_training_labels(task):
    """Parties have 1 to 30 samples and different sets of labels."""
    rng = np.random.default_rng(0)

    def labels(k):
        if task is REGRESSION:
            return rng.normal(k, 1, (rng.integers(1, 30), 2)).astype(np.float32)
        return rng.integers(0, 2 if task is BINARY else k + 1, rng.integers(1, 30))

    train, test = ([(np.zeros((len(y), 1)), y) for y in map(labels, range(12))] for _ in range(2))
    federation = fp.Federation.from_arrays(train, test)

    def answer(y, times):
        if task is REGRESSION:
            return np.tile(y.mean(0), (times, 1))
        label = np.bincount(y).argmax()
        return np.tile([[label - 0.5]] if task is BINARY else np.eye(12)[[label]], (times, 1))

    scores = constant_answer_scores(federation, task)
    expected = list(constant_scores(federation, task, answer))
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert len(set(np.round(expected, 6))) > 3


def test_parameters_are_found_by_index_and_by_name(run):
    for party in (2, "2"):
        params = run.parameters(party)
        np.testing.assert_array_equal(ravel(params).w, run.models[2])
    np.testing.assert_array_equal(ravel(run.parameters()).w, run.w_global)
    with pytest.raises(fp.SettingError, match="party must be"):
        run.parameters("nobody")
    assert "5 parties, 8 rounds" in repr(run)


def test_best_is_the_evaluation_with_the_best_mean(run):
    means = run.evaluations["personal_score"].mean(1)
    assert run.summary(at="best").mean == pytest.approx(means.max())
    assert run.summary().mean == pytest.approx(means[-1])


def test_regression_scores_are_better_when_lower():
    from fedplus.models import REGRESSION, Model

    rng = np.random.default_rng(0)
    truth = rng.normal(size=4)
    data = [(x := rng.normal(size=(50, 4)), x @ truth) for _ in range(3)]
    model = Model(
        lambda key: {"w": jnp.zeros(4)}, lambda p, x: x @ p["w"], REGRESSION, "least squares"
    )
    run = fp.simulate(
        presets.fedavg(eta=0.1),
        fp.Federation.from_arrays(data),
        model,
        rounds=30,
        steps=5,
        batch_size=10,
    )
    assert run.summary(at="best").mean <= run.summary().mean < 1e-2
    np.testing.assert_allclose(jax.tree.leaves(run.parameters())[0], truth, atol=0.05)


PLUS, MR_MTL = presets.fedgeomed_plus(**GEO), presets.mr_mtl(eta=0.1, lam=0.5)


def test_theorem_1_applies_once_all_have_joined_and_settings_are_constant():
    settings = {"rounds": 8, "steps": 2, "batch_size": 8, "evaluate_every": 2, "objective": True}

    def applies(method, **more):
        run = fp.simulate(method, federation(SIZES), CLASSIFIER, **settings, **more)
        return run.evaluations["theorem_1"].tolist()

    assert applies(PLUS) == [True] * 4
    decaying = PLUS.replace(eta=fp.schedules.Cosine(0.1, 0.01, rounds=8))
    assert applies(decaying) == [True] * 4
    warm = PLUS.replace(lam=fp.schedules.WarmUp(rounds=3))
    assert applies(warm) == [False, True, True, True]
    seen = np.zeros((8, 5), bool)
    seen[:, :2], seen[3:, 2:] = True, True  # Three parties join in the fourth round.
    late = fp.simulation.Trace(jnp.array(seen), 5)
    assert applies(PLUS, cohort=late) == [False, True, True, True]
    assert applies(PLUS.replace(join="first"), cohort=late) == [True] * 4


THEOREM_1_NEEDS = {
    "λ = 0, not FedAvg's 1": (presets.fedavg(eta=0.1), {}),
    "λ = 0, not 0.5": (presets.fedgeomed_plus(**GEO, lam=0.5), {}),
    "σ constant": (PLUS.replace(sigma=fp.schedules.Inverse(1.0)), {}),
    "the models of all parties": (
        PLUS.replace(over="active"), {"cohort": 3}
    ),
    "the models of all parties, MR-MTL": (MR_MTL, {"cohort": 3}),
    "replies of all parties": (
        MR_MTL, {"stragglers": fp.simulation.Stragglers(0.5, drop=True)}
    ),
    "the aggregator of ψ, not Krum": (
        PLUS.replace(aggregate=fp.Krum(1)), {}
    ),
    "the aggregator of ψ, not that of another δ": (
        PLUS.replace(aggregate=fp.GeometricMedian(0.1)), {}
    ),
    "gradient steps": (PLUS.replace(optimizer="adam"), {}),
    "steps for all layers": (PLUS.replace(end_step=1), {}),
    "no server optimizer": (
        PLUS.replace(server_optimizer=fp.server_optimizer.MomentumServer()),
        {},
    ),
    "no weights": (PLUS, {"weights": "size"}),
    "no faults": (
        PLUS, {"faults": fp.simulation.Fault((1,), fp.simulation.faults.sign_flip())}
    ),
}  # fmt: skip


def applies_after_four_rounds(method, **circumstances):
    """Return whether Theorem 1 applies after four rounds if all parties have joined by then."""
    setup = set_up(
        [method], federation(SIZES), CLASSIFIER, rounds=4, seeds=[0], steps=2, **circumstances
    )
    return bool(theorem_1_applies(method, setup.state.method._replace(joined=()), 4, setup))


@pytest.mark.parametrize("name", THEOREM_1_NEEDS)
def test_theorem_1_does_not_apply_if_a_condition_is_missing(name):
    method, circumstances = THEOREM_1_NEEDS[name]
    assert not applies_after_four_rounds(method, **circumstances)
    assert applies_after_four_rounds(PLUS)


@pytest.mark.parametrize(
    "method",
    [
        PLUS.replace(aggregate=fp.GeometricMedian(GEO["delta"])),
        PLUS.replace(aggregate=fp.Moreau(fp.L2(GEO["delta"]))),
        presets.fedavg_plus(eta=0.1, sigma=1.0).replace(aggregate=fp.Mean(), over="active"),
        MR_MTL,
        presets.local_sgd(eta=0.1),
    ],
    ids=["geometric median of δ", "Moreau of ψ", "mean of all active", "MR-MTL", "σ = 0"],
)
def test_theorem_1_applies_if_all_conditions_hold_in_another_form(method):
    assert applies_after_four_rounds(method)
