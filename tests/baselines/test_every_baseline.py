"""The common suite of all baselines."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baseline_settings import EVERY, PERSONAL
from least_squares import GRAD, D, E, N, Parties, plain_grad, run_round, work

import fedplus as fp
from fedplus import baselines as b
from fedplus import presets
from fedplus.algorithm import AbstractLocalAdaptation
from fedplus.schedules import Cosine, at_round
from fedplus.work import map_sequentially

pytestmark = pytest.mark.usefixtures("x64")
every = pytest.mark.parametrize("name", EVERY)
W0 = np.random.default_rng(9).normal(size=D)
WITHOUT_OPTIMIZER = ("l2gd", "localupdate", "localupdate-last")
"""Methods whose steps are plain gradient steps by definition."""


def run_rounds(method, parties, rounds=4, each=jax.vmap, cohort=None, **more):
    rng = np.random.default_rng(2)
    state = method.init(W0, parties.n)
    for t in range(rounds):
        given, *_ = work(parties, rng, cohort or range(parties.n), key=t, **more)
        state, outcome = run_round(method, state, given, each)
    return state, outcome


@every
def test_compiled_and_sequential_rounds_are_the_same(name):
    method, parties = EVERY[name], Parties()
    rng = np.random.default_rng(0)
    state = method.init(W0, N)
    states = [state, state, state]
    for t in range(2):
        given, *_ = work(parties, rng, range(N), key=t)
        ways = (
            lambda s, given=given: method.round(s, given, GRAD),
            lambda s, given=given: run_round(method, s, given),
            lambda s, given=given: run_round(method, s, given, map_sequentially),
        )
        states = [way(s)[0] for way, s in zip(ways, states, strict=True)]
    for other in states[1:]:
        pairs = zip(jax.tree.leaves(states[0]), jax.tree.leaves(other), strict=True)
        for expected, leaf in pairs:
            np.testing.assert_allclose(expected, leaf, rtol=1e-9, atol=1e-12)


@every
def test_settings_can_be_mapped_by_vmap(name):
    """Two step sizes at once give the same as two separate runs."""
    method, parties = EVERY[name], Parties()
    first = next(
        f.name for f in dataclasses.fields(method) if isinstance(getattr(method, f.name), float)
    )
    values = [getattr(method, first), 0.5 * getattr(method, first)]
    both = [dataclasses.replace(method, **{first: value}) for value in values]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *both)
    given, *_ = work(parties, np.random.default_rng(0), range(N))

    def run(method):
        state, _ = method.round(method.init(W0, N), given, GRAD)
        return method.models(state)

    together = jax.vmap(run)(stacked)
    for single, models in zip(both, together, strict=True):
        np.testing.assert_allclose(run(single), models, rtol=1e-9, atol=1e-12)
    assert not np.allclose(together[0], together[1]) or first == "spread"


@every
def test_identical_parties_agree(name):
    """With the same samples and minibatches, all parties have the same model."""
    method = EVERY[name]
    state, _ = run_rounds(method, Parties(alike=True), alike=True)
    models = np.asarray(method.models(state))
    np.testing.assert_allclose(models, np.tile(models[0], (N, 1)), rtol=1e-9, atol=1e-12)
    assert np.abs(models[0] - W0).max() > 1e-3


@every
def test_a_permutation_of_the_parties_permutes_the_result(name):
    method, parties = EVERY[name], Parties()
    if name == "fedfomo":  # The models that a party receives depend on its index, so send all.
        method = dataclasses.replace(method, m=N - 1)
    order = np.array([3, 0, 4, 1, 2])
    rng = np.random.default_rng(0)
    state = permuted = method.init(W0, N)
    for t in range(3):
        given, batches, _ = work(parties, rng, range(N), key=t)
        permuted_work = given._replace(
            batches=jax.tree.map(lambda leaf: leaf[order], batches),
            validation=jax.tree.map(lambda leaf: leaf[order], given.validation),
        )
        state, _ = run_round(method, state, given)
        permuted, _ = run_round(method, permuted, permuted_work)
    np.testing.assert_allclose(
        method.models(permuted), method.models(state)[order], rtol=1e-8, atol=1e-10
    )


class Descent:
    """SGD with momentum in plain NumPy; with ``beta`` = 0 it is SGD."""

    def __init__(self, beta):
        self.beta, self.trace = beta, 0.0

    def __call__(self, w, rate, gradient):
        self.trace = self.beta * self.trace + gradient
        return w - rate * self.trace


def alone(rate, batches, beta=0.0):
    """Return the result of SGD on one party's minibatches."""
    w, step = W0, Descent(beta)
    for i in range(E):
        w = step(w, rate, plain_grad(w, (batches[0][0, i], batches[1][0, i])))
    return w


@every
def test_a_schedule_of_a_learning_rate_may_reach_0_and_a_number_may_not(name):
    """With 0 a round changes nothing but averages; SCAFFOLD's control variates stay, too."""
    method, parties = EVERY[name], Parties()
    scheduled = {rate: Cosine(0.1, 0.0, rounds=1) for rate in method.learning_rates}
    method = dataclasses.replace(method, **scheduled)
    given, _, _ = work(parties, np.random.default_rng(0), range(parties.n))
    state = at_round(method, 0).init(W0, parties.n)
    state, _ = run_round(at_round(method, 0), state, given)
    after, outcome = run_round(at_round(method, 1), state, given)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))
    assert not outcome.diverged.any()
    if name.startswith("scaffold-2"):
        np.testing.assert_array_equal(after.control_local, state.control_local)
    for rate in method.learning_rates:
        if rate != "gamma":  # LocalUpdate's γ = 0 is distributed SGD.
            with pytest.raises(fp.SettingError, match=rf"\.{rate} must be a finite number > 0"):
                dataclasses.replace(method, **{rate: 0.0})


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
@every
def test_with_one_party_it_is_sgd_or_the_personal_equivalent(name, optimizer):
    method, parties = EVERY[name], Parties(n=1)
    given, batches, _ = work(parties, np.random.default_rng(0), [0])
    method = {
        "scaffold-1": dataclasses.replace(EVERY["scaffold-1"], eta_g=1.0),
        "scaffold-2": dataclasses.replace(EVERY["scaffold-2"], eta_g=1.0),
        "hypcluster": dataclasses.replace(EVERY["hypcluster"], q=1),
        "mapper": dataclasses.replace(EVERY["mapper"], lambdas=(1.0,)),
        "apfl": dataclasses.replace(EVERY["apfl"], alpha=1.0, adaptive=False),
        "apfl-fixed": dataclasses.replace(EVERY["apfl-fixed"], alpha=0.0),
        "ditto": dataclasses.replace(EVERY["ditto"], lam=0.0),
        "ditto-robust": dataclasses.replace(EVERY["ditto-robust"], lam=0.0),
        "perfedavg-fo": dataclasses.replace(EVERY["perfedavg-fo"], alpha=0.0),
        "perfedavg-hf": dataclasses.replace(EVERY["perfedavg-hf"], alpha=0.0),
        "l2gd": dataclasses.replace(EVERY["l2gd"], p=1e-9),
    }.get(name, method)
    beta = 0.0
    if optimizer == "momentum":
        if not hasattr(method, "optimizer"):
            assert name in WITHOUT_OPTIMIZER
            return
        if name == "scaffold-2":
            with pytest.raises(fp.SettingError, match='"sgd" with option 2'):
                dataclasses.replace(method, optimizer=optimizer)
            return
        method, beta = dataclasses.replace(method, optimizer=optimizer), 0.9
    state, _ = run_round(method, method.init(W0, 1), given)
    (found,) = np.asarray(method.models(state))
    rates = {"scaffold": 0.05, "perfedavg": 0.1, "l2gd": 0.3}
    rate = next((r for n, r in rates.items() if name.startswith(n)), 0.1)
    step = Descent(beta)
    if name == "pfedme":  # The proximal point method, with its prox by inner steps.
        w = theta = W0
        for i in range(E):
            for _ in range(3):
                g = plain_grad(theta, (batches[0][0, i], batches[1][0, i]))
                theta = step(theta, 0.1, g + 2.0 * (theta - w))
            w = w - 0.05 * 2.0 * (w - theta)
        expected = theta
    elif name == "fedsplit":  # z = x + 2(u − x): the reflected step of the prox.
        u = W0
        for i in range(E):
            g = plain_grad(u, (batches[0][0, i], batches[1][0, i]))
            u = step(u, 0.1, g + u - W0)
        expected = W0 + 2 * (u - W0)
    elif name.startswith("localupdate"):  # The server's step along the gradients of smaller steps.
        w, total = W0, 0.0
        for i in range(E):
            g = plain_grad(w, (batches[0][0, i], batches[1][0, i]))
            w, total = w - 0.05 * g, total + g if name == "localupdate" else g
        expected = W0 - 0.1 * total
    elif name.startswith("perfedavg"):
        w = W0
        for i in range(E):
            j = (3 * i + 1) % E
            w = step(w, rate, plain_grad(w, (batches[0][0, j], batches[1][0, j])))
        expected = w
    else:
        expected = alone(rate, batches, beta)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@every
def test_inactive_and_absent_parties_keep_their_state(name):
    method, parties = EVERY[name], Parties()
    state, _ = run_rounds(method, parties, rounds=2)
    given, *_ = work(parties, np.random.default_rng(5), [0, 2, 4])
    present = np.array([True, False, True])
    after, outcome = run_round(method, state, given._replace(present=present))
    for field in method.per_party:
        before, now = np.asarray(getattr(state, field)), np.asarray(getattr(after, field))
        np.testing.assert_array_equal(before[[1, 2, 3]], now[[1, 2, 3]])
    if name not in ("fedfomo", "fedsplit"):  # These two use the last models of all parties.
        assert int(outcome.dropped) == 1


@every
def test_a_model_that_arrives_as_nan_is_dropped(name):
    method, parties = EVERY[name], Parties()
    state = method.init(W0, N)
    rng = np.random.default_rng(0)

    def broken(models, party):
        return jnp.where((party == 2)[:, None], jnp.nan, models)

    for t in range(3):
        given, *_ = work(parties, rng, range(N), key=t, transmit=broken)
        state, outcome = method.round(state, given, GRAD)
        assert int(outcome.dropped) == 1
    for leaf in jax.tree.leaves(state):
        assert np.isfinite(np.asarray(leaf)).all()


@every
def test_a_party_that_diverges_is_reported_and_harms_nobody(name):
    method, parties = EVERY[name], Parties()
    given, batches, _ = work(parties, np.random.default_rng(0), range(N))
    xs, ys = (np.array(part) for part in batches)
    ys[1] = np.nan
    state, outcome = run_round(method, method.init(W0, N), given._replace(batches=(xs, ys)))
    assert np.asarray(outcome.diverged).tolist() == [False, True, False, False, False]
    for leaf in jax.tree.leaves(state):
        assert np.isfinite(np.asarray(leaf)).all()


@every
def test_without_steps_the_models_do_not_change(name):
    method, parties = EVERY[name], Parties()
    given, *_ = work(parties, np.random.default_rng(0), range(N), steps=np.zeros(N, int))
    state, _ = run_round(method, method.init(W0, N), given)
    first = method.models(method.init(W0, N))
    if name == "hypcluster":
        assert {tuple(m) for m in np.asarray(method.models(state))} <= {
            tuple(c) for c in np.asarray(state.centres)
        }
    else:
        np.testing.assert_allclose(method.models(state), first, rtol=1e-12)


@every
def test_only_personal_methods_give_parties_different_models(name):
    method = EVERY[name]
    state, _ = run_rounds(method, Parties(spread=3.0), rounds=6)
    models = np.asarray(method.models(state))
    assert (np.ptp(models, axis=0).max() > 1e-3) == (name in PERSONAL)
    some = np.asarray(method.personal_parts(state, jnp.array([4, 1])))
    np.testing.assert_allclose(
        some, models[[4, 1]] - np.asarray(method.w_global(state)), atol=1e-12
    )
    np.testing.assert_array_equal(method.models(state, jnp.array([4, 1])), models[[4, 1]])
    assert isinstance(method, AbstractLocalAdaptation) == name.startswith("perfedavg")


BAD = {
    "scaffold-1": {"eta_l": 0.0, "eta_g": -1.0, "option": 3, "aggregate": "mean"},
    "pfedme": {"eta": 0.0, "lam": 0.0, "eta_inner": -1.0, "inner": 0, "beta": 0.0},
    "perfedavg-hf": {"alpha": -1.0, "beta": 0.0, "variant": "second", "delta": 0.0},
    "apfl": {"eta": 0.0, "alpha": 1.5, "adaptive": "yes"},
    "ditto": {"eta": float("nan"), "lam": -1.0, "aggregate": 3},
    "l2gd": {"alpha": 0.0, "lam": -1.0, "p": 1.0},
    "hypcluster": {"eta": 0.0, "q": 0, "spread": -1.0},
    "mapper": {"eta": 0.0, "eta_c": 0.0, "lambdas": (0.5, 2.0)},
    "fedfomo": {"eta": 0.0, "m": 0, "epsilon": 2.0},
    "fedsplit": {"s": 0.0, "eta": 0.0},
    "localupdate": {"eta": 0.0, "gamma": -1.0, "theta": "first", "aggregate": "mean"},
}


@pytest.mark.parametrize(("name", "setting"), [(n, s) for n, bad in BAD.items() for s in bad])
def test_bad_settings_of_baselines_are_reported_in_one_line(name, setting):
    with pytest.raises(fp.SettingError, match=setting.split("_")[0]) as error:
        dataclasses.replace(EVERY[name], **{setting: BAD[name][setting]})
    assert "\n" not in str(error.value)


def fedavg_models(parties, eta, rounds, rng_seed=2):
    """Return the models after rounds of FedAvg on the same minibatches as ``run_rounds``."""
    method = presets.fedavg(eta=eta)
    rng = np.random.default_rng(rng_seed)
    state = method.init(W0, parties.n)
    for t in range(rounds):
        given, *_ = work(parties, rng, range(parties.n), key=t)
        state, _ = run_round(method, state, given)
    return np.asarray(method.models(state))


def models_after(method, parties, rounds):
    """Return the models after so many rounds."""
    return np.asarray(method.models(run_rounds(method, parties, rounds)[0]))


def test_some_methods_are_fedavg_in_the_limit():
    parties = Parties()
    expected = fedavg_models(parties, 0.1, 4)
    limits = {
        "apfl with α = 0": b.APFL(eta=0.1, alpha=0.0, adaptive=False),
        "hypcluster with one model": b.HypCluster(eta=0.1, q=1),
        "localupdate with γ = η": b.LocalUpdate(eta=0.1, gamma=0.1),
    }
    for name, method in limits.items():
        found = models_after(method, parties, 4)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)
    pfedme = b.PFedMe(eta=0.1, lam=1e7, eta_inner=1e-7, inner=2)  # λ → ∞
    state, _ = run_rounds(pfedme, parties, 4)
    np.testing.assert_allclose(state.w_global, expected[0], rtol=1e-5, atol=1e-5)


def test_some_methods_are_local_training_in_the_limit():
    parties = Parties()
    expected = models_after(presets.local_sgd(eta=0.1), parties, 4)
    limits = {
        "apfl with α = 1": b.APFL(eta=0.1, alpha=1.0, adaptive=False),
        "ditto with λ = 0": b.Ditto(eta=0.1, lam=0.0),
        "l2gd with p → 0": b.L2GD(alpha=0.1 * N, lam=1.0, p=1e-9),
        "mapper with λ = 1": b.Mapper(eta=0.1, eta_c=0.1, lambdas=(1.0,)),
    }
    for name, method in limits.items():
        found = models_after(method, parties, 4)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=name)


def test_l2gd_only_averages_as_p_tends_to_1():
    method = b.L2GD(alpha=0.5, lam=1.0, p=1 - 1e-9)
    found = models_after(method, Parties(), 4)
    np.testing.assert_allclose(found, np.tile(W0, (N, 1)), rtol=1e-9)


def test_localupdate_without_local_steps_is_minibatch_sgd():
    """With γ = 0, all gradients are those at the global model."""
    parties, x = Parties(), W0
    method, rng = b.LocalUpdate(eta=0.02, gamma=0.0), np.random.default_rng(0)
    state = method.init(W0, N)
    for t in range(4):
        given, batches, _ = work(parties, rng, range(N), key=t)
        state, _ = run_round(method, state, given)
        g = [
            plain_grad(x, (batches[0][k, i], batches[1][k, i])) for k in range(N) for i in range(E)
        ]
        x = x - 0.02 * E * np.mean(g, axis=0)
        np.testing.assert_allclose(state.w_global, x, rtol=1e-9)


def test_scaffold_with_one_local_step_is_minibatch_sgd():
    """With E_k = 1, the corrections cancel in the mean."""
    parties, method = Parties(), b.Scaffold(eta_l=0.1)
    rng = np.random.default_rng(0)
    state, x = method.init(W0, N), W0
    for t in range(5):
        given, batches, _ = work(parties, rng, range(N), steps=np.ones(N, int), key=t)
        state, _ = run_round(method, state, given)
        g = [plain_grad(x, (batches[0][k, 0], batches[1][k, 0])) for k in range(N)]
        x = x - 0.1 * np.mean(g, axis=0)
        np.testing.assert_allclose(state.w_global, x, rtol=1e-9)


def test_per_fedavg_with_alpha_0_is_fedavg_on_its_second_minibatches():
    parties = Parties(alike=True)
    fo = models_after(b.PerFedAvg(alpha=0.0, beta=0.1, variant="fo"), parties, 3)
    hf = models_after(b.PerFedAvg(alpha=0.0, beta=0.1, variant="hf"), parties, 3)
    np.testing.assert_allclose(fo, hf, rtol=1e-12)
