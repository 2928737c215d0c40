"""Every round of every baseline equals plain NumPy code, written from its paper's pseudo-code."""

import jax
import numpy as np
import numpy_baselines as plain
import pytest
from baseline_settings import EVERY
from least_squares import GRAD, D, E, N, Parties, run_round, work

import fedplus as fp
from fedplus import baselines as b

pytestmark = pytest.mark.usefixtures("x64")
ROUNDS = 5
PLAIN = {
    b.Scaffold: plain.scaffold, b.PFedMe: plain.pfedme, b.PerFedAvg: plain.perfedavg,
    b.APFL: plain.apfl, b.Ditto: plain.ditto, b.HypCluster: plain.hypcluster,
    b.Mapper: plain.mapper, b.FedSplit: plain.fedsplit, b.L2GD: plain.l2gd, b.FedFomo: plain.fedfomo,
    b.LocalUpdate: plain.localupdate,
}  # fmt: skip


@pytest.mark.parametrize("cohort_size", [N, 3])
@pytest.mark.parametrize("name", EVERY)
def test_every_round_equals_the_papers_pseudo_code(name, cohort_size):
    method, parties = EVERY[name], Parties()
    rng = np.random.default_rng(1)
    w0 = rng.normal(size=D)
    state = method.init(w0, N)
    memory = plain.begin(w0)
    if isinstance(method, b.HypCluster):
        memory["centres"] = np.array(state.centres)
    for t in range(ROUNDS):
        cohort = rng.choice(N, cohort_size, replace=False)
        steps = rng.integers(1, E + 1, cohort_size)
        given, batches, steps = work(parties, rng, cohort, steps, key=t)
        extra = {}
        if isinstance(method, b.L2GD):
            extra["heads"] = lambda i, key=given.key: bool(
                jax.random.bernoulli(jax.random.fold_in(key, i), method.p)
            )
        if isinstance(method, b.FedFomo):
            sent = np.asarray(method._choose(state, given.checked(N), N))
            assert not (sent == cohort[:, None]).any()
            extra.update(sent=sent, held=given.validation)
        state, outcome = run_round(method, state, given)
        PLAIN[type(method)](memory, method, cohort, batches, steps, N, **extra)
        np.testing.assert_allclose(method.models(state), memory["models"], rtol=1e-7, atol=1e-9)
        if not isinstance(method, (b.HypCluster, b.FedFomo)):
            np.testing.assert_allclose(method.w_global(state), memory["w"], rtol=1e-7, atol=1e-9)
        assert not np.asarray(outcome.diverged).any()
        assert int(outcome.dropped) == 0


def test_per_fedavg_adapts_by_one_gradient_step():
    method, parties = EVERY["perfedavg-hf"], Parties()
    models = np.random.default_rng(0).normal(size=(N, D))
    batches = parties.full(1)
    adapted = method.adapt(models, batches, GRAD)
    hs, gs = parties.hessians()
    expected = [w - method.alpha * (h @ w - g) for w, h, g in zip(models, hs, gs, strict=True)]
    np.testing.assert_allclose(adapted, expected, rtol=1e-9)


def test_hypcluster_starts_with_the_given_model_and_noisy_copies_of_it():
    state = b.HypCluster(eta=0.1, q=3, spread=0.5).init(np.zeros(1000), 4)
    assert (np.asarray(state.centres[0]) == 0).all()
    assert abs(np.asarray(state.centres[1:]).std() - 0.5) < 0.05


def test_missing_losses_keys_and_validation_samples_are_reported():
    given, *_ = work(Parties(), np.random.default_rng(0), range(N))
    for name in ("hypcluster", "mapper", "fedfomo"):
        method = EVERY[name]
        with pytest.raises(fp.SettingError, match="a ParameterGradient with a loss"):
            method.round(method.init(np.zeros(D), N), given, GRAD.grad)
    for name in ("l2gd", "fedfomo"):
        method = EVERY[name]
        with pytest.raises(fp.SettingError, match="random numbers"):
            method.round(method.init(np.zeros(D), N), given._replace(key=None), GRAD)
    with pytest.raises(fp.SettingError, match="validation samples"):
        EVERY["fedfomo"].round(
            EVERY["fedfomo"].init(np.zeros(D), N), given._replace(validation=None), GRAD
        )
