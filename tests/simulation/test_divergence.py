"""Local steps that diverge are repeated with smaller steps, and other steps are not."""

import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus import baselines, presets
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
    assert total(run) > 0
    others = [k for k in range(4) if k != STEEP]
    np.testing.assert_array_equal(run.models[others], plain.models[others])
    x, y = run.federation.train.party(STEEP)
    losses = [np.mean((x @ w - y) ** 2) for w in (np.zeros(3), run.models[STEEP])]
    assert losses[1] < 0.5 * losses[0]


def test_a_party_that_cannot_be_rescued_keeps_its_model():
    """Its curvature is 10⁶ times that of the others, and they go on."""
    run = fp.simulate(
        presets.local_sgd(eta=0.3), regression([1.0, 1.0, 1e3]), LINEAR, **SETTINGS | {"rounds": 3}
    )
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
