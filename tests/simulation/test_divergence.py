"""Local steps that diverge are repeated with smaller steps, and other steps are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus import baselines, presets
from fedplus.backoff import GOOD_ROUNDS, Backoff
from fedplus.models import REGRESSION, Model
from fedplus.simulation import DivergedError
from fedplus.work import RETRIES
from small_federation import CLASSIFIER, federation

STEEP = 2
SETTINGS = {"rounds": 12, "steps": 4, "batch_size": 20, "seed": 1}
LINEAR = Model(lambda key: {"w": jnp.zeros(3)}, lambda p, x: x @ p["w"], REGRESSION)


def regression(scales, noise=0.3, n=40):
    """Return parties whose inputs have these scales; the curvature of the loss is their square."""
    rng = np.random.default_rng(0)
    pairs = []
    for k, scale in enumerate(scales):
        x = scale * rng.normal(size=(n, 3))
        y = x @ (np.ones(3) / scale) + 0.2 * k + noise * rng.normal(size=n)
        pairs.append((x.astype(np.float32), y.astype(np.float32)))
    return fp.Federation.from_arrays(pairs, pairs)


def total(run):
    return int(np.asarray(run.figures["diverged"]).sum())


@pytest.mark.parametrize("each", ["vmap", "map"])
@pytest.mark.parametrize("scale", [2.6, 5.0])
def test_a_party_with_too_large_a_learning_rate_is_rescued_and_others_are_unaffected(scale, each):
    """η = 0.5 is too large for a curvature of 6 or more; ordinary parties have 1."""
    scales = [1.0, 1.0, scale, 1.0]
    method = presets.local_sgd(eta=0.5)
    run = fp.simulate(method, regression(scales), LINEAR, each=each, **SETTINGS)
    plain = fp.simulate(method, regression([1.0] * 4), LINEAR, each=each, **SETTINGS)
    assert total(plain) == 0
    counts = np.asarray(run.figures["diverged"])
    if counts.ndim == 2:
        of_steep = np.asarray(run.figures["cohort"]) == STEEP
        assert counts[~of_steep].sum() == 0
        assert counts[of_steep].max() <= RETRIES + 1
    assert (
        0 < total(run) <= 2 * (RETRIES + 1)
    )  # In the first round, and when larger steps are tried.
    others = [k for k in range(4) if k != STEEP]
    np.testing.assert_array_equal(run.models[others], plain.models[others])
    x, y = run.federation.train.party(STEEP)
    losses = [np.mean((x @ w - y) ** 2) for w in (np.zeros(3), run.models[STEEP])]
    assert losses[1] < 0.5 * losses[0]


def test_a_party_that_cannot_be_rescued_keeps_its_model():
    """Its curvature is 10⁶ times that of the others, and they go on."""
    with pytest.warns(UserWarning, match=r"64 times smaller steps: '2' in 3 of 3 rounds") as caught:
        run = fp.simulate(
            presets.local_sgd(eta=0.3), regression([1.0, 1.0, 1e3]), LINEAR,
            **SETTINGS | {"rounds": 3},
        )  # fmt: skip
    assert len(caught) == 1
    np.testing.assert_array_equal(run.models[2], np.zeros(3))
    assert np.abs(run.models[:2]).min() > 0.1
    assert total(run) > 0


def test_if_all_parties_diverge_in_spite_of_smaller_steps_the_run_stops():
    with pytest.raises(DivergedError, match="64 times smaller steps"):
        fp.simulate(presets.fedavg(eta=1e6), regression([1.0] * 3), LINEAR, **SETTINGS)


def test_losses_that_are_nan_stop_the_run():
    """Repetition with smaller steps does not help."""
    broken = Model(LINEAR.init, lambda p, x: x @ p["w"] * jnp.nan, REGRESSION)
    with pytest.raises(DivergedError):
        fp.simulate(presets.fedavg(eta=0.1), regression([1.0] * 3), broken, **SETTINGS)


@pytest.mark.parametrize("preset", ["local_sgd", "fedavg", "fedgeomed_plus"])
def test_false_alarms_are_rare_in_a_noisy_regression(preset):
    """Most of 200 rounds are near the minimum: η is sensible, and minibatches are small."""
    settings = {"sigma": 0.5} if preset == "fedgeomed_plus" else {}
    method = getattr(presets, preset)(eta=0.1, **settings)
    run = fp.simulate(
        method, regression([1.0] * 4, noise=2.0), LINEAR, rounds=200, steps=5, batch_size=10,
        evaluate_every=200,
    )  # fmt: skip
    assert total(run) <= 0.005 * 800


def test_false_alarms_are_rare_in_classification():
    run = fp.simulate(
        presets.fedgeomed_plus(eta=0.1, sigma=0.5), federation(), CLASSIFIER, rounds=200, steps=5,
        batch_size=8, evaluate_every=200,
    )  # fmt: skip
    assert total(run) <= 0.005 * 1000


def test_false_alarms_are_rare_for_losses_around_0():
    """Such a loss is minus a portfolio's log return, which is mostly noise of both signs."""
    rng = np.random.default_rng(0)
    pairs = [(1 + 0.02 * rng.normal(size=(60, 3)), np.zeros(60)) for _ in range(4)]
    task = REGRESSION._replace(
        loss=lambda outputs, y: -jnp.log(outputs), score=lambda outputs, y: -jnp.log(outputs)
    )
    model = Model(
        lambda key: {"w": jnp.zeros(3)},
        lambda p, x: x @ (jnp.exp(p["w"]) / jnp.exp(p["w"]).sum()),
        task,
    )
    data = fp.Federation.from_arrays(pairs, pairs)
    run = fp.simulate(
        presets.local_sgd(eta=1.0), data, model, rounds=200, steps=5, batch_size=20,
        evaluate_every=200,
    )  # fmt: skip
    assert total(run) <= 0.005 * 800
    assert np.abs(run.models).max() > 0.01


RESCUED = {
    "adam": (presets.local_sgd(eta=0.05).replace(optimizer="adam", eta=5.0), 1.0),
    "ditto, ηλ": (baselines.Ditto(eta=0.6, lam=5.0), 1.0),
    "fedsplit, η/s": (baselines.FedSplit(s=0.2, eta=0.6), 1.0),
    "pfedme, ηλ": (baselines.PFedMe(eta=0.1, lam=20.0, eta_inner=0.15), 1.0),
    "l2gd": (baselines.L2GD(alpha=1.0, lam=0.1), 6.0),
    "mapper": (baselines.Mapper(eta=0.5, eta_c=0.1, lambdas=(0.9,)), 6.0),
    "scaffold": (baselines.Scaffold(eta_l=0.5), 6.0),
}
"""Methods with too large steps: of an optimizer that ignores the scale of gradients, of a quadratic
term, or for the curvature of one party."""


@pytest.mark.parametrize("name", RESCUED)
def test_smaller_steps_rescue_what_smaller_gradients_would_not(name):
    method, scale = RESCUED[name]
    run = fp.simulate(method, regression([1.0, 1.0, scale, 1.0]), LINEAR, **SETTINGS)
    counts = np.asarray(run.figures["diverged"])
    assert 0 < counts.max() <= RETRIES + 1
    assert (counts <= RETRIES).any()
    for k in (0, 1, 3):  # For the steep party a global model may be bad.
        untrained = np.mean(run.federation.test.party(k)[1] ** 2)
        assert run.evaluations["personal_score"][-1][k] <= 1.5 * untrained


def test_mapper_keeps_the_interpolation_of_a_party_that_cannot_be_rescued():
    """The second interpolation is better while training goes well; then η explodes."""
    eta = fp.schedules.WarmUp(rounds=4, first=0.1, then=1e20)
    method = baselines.Mapper(eta=eta, eta_c=eta, lambdas=(0.01, 0.9))
    data, settings = (
        regression([1.0, 1.0, 1.0]),
        {"steps": 4, "batch_size": 20, "diverged": "count"},
    )
    before, after = (
        fp.sweep([method], data, LINEAR, rounds=rounds, seeds=(1,), **settings)[0]
        for rounds in (4, 5)
    )
    assert (np.asarray(before.state.lam) == np.float32(0.9)).all()
    np.testing.assert_array_equal(after.state.lam, before.state.lam)
    np.testing.assert_array_equal(after.state.w_local, before.state.w_local)


def test_smaller_steps_are_kept_until_larger_ones_have_been_good_for_long():
    """A plain loop over the definition, for a party of which steps below some level diverge."""
    rng = np.random.default_rng(0)
    least_level = np.repeat(rng.integers(0, RETRIES + 2, 20), rng.integers(5, 60, 20))
    backoff, level, good = Backoff.none(1), 0, 0
    for least in least_level:
        first = level - 1 if good >= GOOD_ROUNDS else level
        assert int(backoff.first_level()[0]) == first
        failures = min(max(least - first, 0), RETRIES + 1 - first)
        backoff = backoff.after_round(np.array([RETRIES + 1 if least > RETRIES else failures]))
        good = good + 1 if level > 0 else 0
        if failures > 0:
            level, good = min(least, RETRIES), 0
        elif good == 2 * GOOD_ROUNDS:
            level, good = level - 1, 0
        assert (int(backoff.safe_level[0]), int(backoff.good_rounds[0])) == (level, good)


def with_outlier(seed):
    """Return two parties of 24 samples; one sample of the second makes its loss far more curved."""
    rng = np.random.default_rng(seed)
    parties = []
    for outlier in (1.0, 30.0):
        x = rng.normal(size=(24, 3))
        x[0] = (outlier, 0, 0)
        y = x @ np.array([0.3, 1.0, 1.0]) + 0.5 * rng.normal(size=24)
        parties.append((x.astype(np.float32), y.astype(np.float32)))
    return fp.Federation.from_arrays(parties, parties)


@pytest.mark.parametrize("preset", ["local_sgd", "fedgeomed_plus"])
def test_no_round_makes_a_party_worse_than_untrained_because_of_divergence(preset):
    """A single sample has nearly all the loss, which is then within three standard errors of 0."""
    settings = {} if preset == "local_sgd" else {"sigma": 1.0}
    method = getattr(presets, preset)(eta=0.06, **settings)
    for seed in range(5):
        run = fp.simulate(
            method, with_outlier(seed), LINEAR, rounds=60, steps=10, batch_size=20, seed=seed,
            evaluate_every=1,
        )  # fmt: skip
        diverged = np.asarray(run.figures["diverged"])
        assert diverged[:, 1].any()
        assert not diverged[:, 0].any()
        for k in range(2):
            untrained = np.mean(run.federation.train.party(k)[1] ** 2)
            assert (run.evaluations["personal_score"][:, k] < untrained).all()


LONG = SETTINGS | {"rounds": 35}
STEEP_PARTIES = regression([1.0, 1.0, 5.0, 1.0])


def assert_same_run(a, b):
    for name in ("diverged", "cohort"):
        np.testing.assert_array_equal(a.figures[name], b.figures[name])
    np.testing.assert_array_equal(a.models, b.models)
    np.testing.assert_array_equal(a.w_global, b.w_global)


@pytest.mark.parametrize("cohort", [None, 2])
@pytest.mark.parametrize("preset", ["fedavg", "local_sgd"])
def test_smaller_steps_survive_a_resume_and_pauses_and_are_the_same_in_a_sweep(
    preset, cohort, tmp_path
):
    """FedAvg's state has rows of the cohort only."""
    method = getattr(presets, preset)(eta=0.3)
    settings = LONG | {"cohort": cohort}
    run = fp.simulate(method, STEEP_PARTIES, LINEAR, **settings)
    of_steep = np.asarray(run.figures["cohort"]) == STEEP
    counts = np.asarray(run.figures["diverged"])
    assert 0 < (counts[of_steep] > 0).sum() <= 5 < of_steep.sum()
    for rounds in (5, 16, 35):
        part = fp.simulate(
            method, STEEP_PARTIES, LINEAR, checkpoint=tmp_path, resume=True,
            **settings | {"rounds": rounds, "evaluate_every": 35},
        )  # fmt: skip
    assert_same_run(part, run)
    seeds = {"seeds": (0, 1)}
    swept = fp.sweep(
        [method],
        STEEP_PARTIES,
        LINEAR,
        **{k: v for k, v in settings.items() if k != "seed"} | seeds,
    )
    assert (swept[1].figures["diverged"] == run.figures["diverged"]).all()
    np.testing.assert_allclose(swept[1].models, run.models, rtol=1e-5, atol=1e-6)


def test_smaller_steps_are_the_same_with_a_store_and_on_a_mesh(tmp_path):
    method = presets.fedavg(eta=0.3)
    settings = LONG | {"cohort": 2}
    run = fp.simulate(method, STEEP_PARTIES, LINEAR, **settings)
    assert total(run) > 0
    assert_same_run(fp.simulate(method, STEEP_PARTIES, LINEAR, store=tmp_path, **settings), run)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("parties",))
    sharded = fp.simulate(method, STEEP_PARTIES, LINEAR, mesh=mesh, **settings)
    np.testing.assert_array_equal(sharded.figures["diverged"], run.figures["diverged"])


FINE_TUNED = {
    "fedavg": presets.fedavg(eta=0.3).replace(fine_tune=8),
    "per-fedavg": baselines.PerFedAvg(alpha=0.3, beta=0.01),
}


@pytest.mark.parametrize("name", FINE_TUNED)
def test_fine_tuning_that_diverges_is_repeated_counted_and_not_worse(name):
    run = fp.simulate(FINE_TUNED[name], STEEP_PARTIES, LINEAR, **SETTINGS)
    counts = run.evaluations["adaptation_diverged"]
    assert counts.shape == (len(run.evaluations["round"]), 4)
    assert 0 < counts[:, STEEP].max() <= RETRIES
    assert np.delete(counts, STEEP, axis=1).sum() == 0
    untrained = np.mean(run.federation.test.party(STEEP)[1] ** 2)
    assert run.evaluations["personal_score"][-1][STEEP] < untrained
    adapted = run.join(*run.federation.train.party(STEEP), steps=4)
    assert np.isfinite(adapted).all()


def test_fine_tuning_that_cannot_be_rescued_is_named():
    data = regression([1.0, 1.0, 1e4, 1.0])
    method = presets.fedavg(eta=0.1).replace(fine_tune=8)
    with pytest.warns(UserWarning, match=r"smaller steps: '2' in \d+ of") as caught:
        run = fp.simulate(method, data, LINEAR, **SETTINGS)
    assert {"rounds of training", "adapt w̃"} <= {
        text for text in ("rounds of training", "adapt w̃")
        if any(text in str(warning.message) for warning in caught)
    }  # fmt: skip
    np.testing.assert_array_equal(run.models[STEEP], run.w_global)
    with pytest.warns(UserWarning, match="local steps diverged in all 1 rounds"):
        joined = run.join(*data.train.party(STEEP), steps=4)
    np.testing.assert_array_equal(joined, run.w_global)


def test_one_hopeless_party_alone_in_a_round_does_not_stop_the_run():
    """One of four parties trains in each round, as in a tenth of four hospitals."""
    settings = SETTINGS | {"rounds": 60, "cohort": 1}
    method = presets.local_sgd(eta=0.3)
    with pytest.warns(UserWarning, match=r"smaller steps: '2' in \d+ of 60 rounds"):
        run = fp.simulate(method, regression([1.0, 1.0, 1e3, 1.0]), LINEAR, **settings)
    hopeless = np.asarray(run.figures["cohort"])[:, 0] == STEEP
    assert (hopeless[1:] & hopeless[:-1]).any()  # Even in rounds after each other.
    assert (np.asarray(run.figures["diverged"])[hopeless] > RETRIES).all()
    assert np.abs(np.delete(run.models, STEEP, axis=0)).min() > 0.1


def test_a_run_in_which_no_party_alone_in_its_round_trains_stops(tmp_path):
    """It stops once three of four parties have given up, also if it was resumed before."""
    settings = SETTINGS | {"rounds": 60, "cohort": 1}
    method, data = presets.local_sgd(eta=0.3), regression([1e3] * 4)
    with pytest.raises(DivergedError, match=r"In rounds 1 to (\d+) the local steps") as error:
        fp.simulate(method, data, LINEAR, **settings)
    last = int(str(error.value).split(" to ")[1].split()[0])
    assert 3 <= last < 60
    with pytest.warns(UserWarning, match="given up"):
        fp.simulate(
            method, data, LINEAR, checkpoint=tmp_path, **settings | {"rounds": last - 1}
        )  # fmt: skip
    with pytest.raises(DivergedError) as resumed:
        fp.simulate(method, data, LINEAR, checkpoint=tmp_path, resume=True, **settings)
    assert str(resumed.value).startswith(str(error.value).split(" The last good")[0])
