"""Server optimizers; those of Reddi et al. and FedAvgM are also compared in ``test_presets``."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedplus as fp
from fedplus import presets
from fedplus.schedules import Linear
from fedplus.server_optimizer import AdaptiveServer, MomentumServer, OptaxServer

pytestmark = pytest.mark.usefixtures("x64_throughout")
N, D, ROUNDS = 5, 3, 6
LAYOUT = (("body", 2), ("head", 1))
seeds = st.integers(0, 2**32 - 1)


def targets(seed=0):
    """Return a sequence of aggregates."""
    return np.random.default_rng(seed).normal(size=(ROUNDS, D))


def path(server, aggregates):
    """Return the global models of a server that gets these aggregates, from the model 0."""
    w = jnp.zeros(D)
    state, models = server.init(w), []
    for aggregate in aggregates:
        w, state = server.step(w, aggregate, state)
        models.append(w)
    return np.array(models)


@given(seeds)
def test_servers_with_a_full_step_and_without_memory_take_the_aggregate(seed):
    aggregates = targets(seed)
    for server in (OptaxServer(optax.sgd(1.0)), MomentumServer(1.0, 0.0)):
        np.testing.assert_allclose(path(server, aggregates), aggregates, rtol=1e-12, atol=1e-14)


@given(seeds, st.floats(0.01, 1), st.floats(0, 0.99))
def test_momentum_is_that_of_optax(seed, eta, beta):
    aggregates = targets(seed)
    found = path(MomentumServer(eta, beta), aggregates)
    expected = path(OptaxServer(optax.sgd(eta, momentum=beta)), aggregates)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_an_optax_server_descends_along_minus_delta():
    """The reference is Adam by its definition, with bias correction, on the gradient w̃ − 𝒜(W)."""
    w, m, v = np.zeros(D), np.zeros(D), np.zeros(D)
    expected = []
    for t, aggregate in enumerate(targets(), 1):
        g = w - aggregate
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w = w - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        expected.append(w)
    np.testing.assert_allclose(path(OptaxServer(optax.adam(0.1)), targets()), expected, rtol=1e-9)


SERVERS = {
    "adam": AdaptiveServer("adam", 0.1),
    "yogi": AdaptiveServer("yogi", 0.1),
    "adagrad": AdaptiveServer("adagrad", 0.1, 0.0),
    "momentum": MomentumServer(0.5, 0.5),
    "optax": OptaxServer(optax.adam(0.05)),
}
every_server = pytest.mark.parametrize("name", SERVERS)


@every_server
def test_a_server_reaches_an_aggregate_that_stays(name):
    aggregate = np.array([1.0, -2.0, 0.5])
    models = path(SERVERS[name], [aggregate] * 2000)
    np.testing.assert_allclose(models[-1], aggregate, atol=0.02)


@every_server
def test_a_server_at_the_aggregate_stays_there(name):
    np.testing.assert_array_equal(path(SERVERS[name], np.zeros((3, D))), np.zeros((3, D)))


def run(method, rounds=4, present=None, seed=0):
    rng = np.random.default_rng(seed)
    state, states = method.init(jnp.arange(1.0, 1 + D), N), []
    for _ in range(rounds):
        batches = jnp.asarray(rng.normal(size=(N, 2, D)))
        work = fp.Work(np.arange(N), batches, 2, present=present)
        state, _ = method.round(state, work, lambda w, c: w - c)
        states.append(state)
    return states


@pytest.mark.parametrize("name", ["fedavg", "fedgeomed_plus", "fedper", "mr_mtl"])
def test_a_full_sgd_step_of_the_server_equals_no_server(name):
    settings = {
        "fedavg": {},
        "fedgeomed_plus": {"sigma": 1.0},
        "fedper": {"layout": LAYOUT, "private": ("head",)},
        "mr_mtl": {"lam": 0.5},
    }[name]
    method = getattr(presets, name)(eta=0.1, **settings)
    for plain, served in zip(
        run(method), run(method.replace(server_optimizer=OptaxServer(optax.sgd(1.0)))), strict=True
    ):
        np.testing.assert_allclose(served.w_global, plain.w_global, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(served.w_local, plain.w_local, rtol=1e-10, atol=1e-12)


@every_server
def test_a_server_moves_only_the_shared_layers(name):
    method = presets.fedper(LAYOUT, eta=0.1, private=("head",)).replace(
        server_optimizer=SERVERS[name]
    )
    states = run(method)
    assert {float(state.w_global[2]) for state in states} == {3.0}
    assert np.ptp([state.w_global[:2] for state in states], axis=0).min() > 0
    sizes = {leaf.shape for leaf in jax.tree.leaves(states[0].server_state)}
    assert sizes <= {(2,), ()}


@every_server
@pytest.mark.parametrize("preset", ["fedavg", "fedavg_plus"])
def test_rounds_without_replies_change_nothing(name, preset):
    """Neither w̃ nor the optimizer's moments change."""
    settings = {} if preset == "fedavg" else {"sigma": 1.0}
    method = getattr(presets, preset)(eta=0.1, **settings)
    method = method.replace(server_optimizer=SERVERS[name])
    (*_, before) = run(method)
    batches = jnp.ones((N, 2, D))
    work = fp.Work(np.arange(N), batches, 2, present=np.zeros(N, bool))
    after, _ = method.round(before, work, lambda w, c: w - c)
    np.testing.assert_array_equal(after.w_global, before.w_global)
    for one, other in zip(
        jax.tree.leaves(before.server_state), jax.tree.leaves(after.server_state), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_schedule_of_every_number_of_a_server_has_a_first_state():
    method = presets.fedadam(eta=0.1, eta_server=0.1).replace(
        server_optimizer=AdaptiveServer("adam", 0.1, tau=Linear(1e-3, 1e-4, rounds=5))
    )
    np.testing.assert_allclose(method.init(jnp.zeros(D), N).server_state.second, 1e-6)


BAD = {
    "AdaptiveServer.rule": lambda: AdaptiveServer("sgd", 0.1),
    "AdaptiveServer.eta": lambda: AdaptiveServer("adam", 0.0),
    "AdaptiveServer.beta1": lambda: AdaptiveServer("adam", 0.1, beta1=1.0),
    "AdaptiveServer.beta2": lambda: AdaptiveServer("adam", 0.1, beta2=-0.1),
    "AdaptiveServer.tau": lambda: AdaptiveServer("adam", 0.1, tau=0.0),
    "MomentumServer.eta": lambda: MomentumServer(-1.0),
    "MomentumServer.beta": lambda: MomentumServer(beta=1.0),
    "OptaxServer.optimizer": lambda: OptaxServer(0.1),
    "FedPlus.server_optimizer": lambda: presets.fedavg(eta=0.1).replace(
        server_optimizer=optax.adam(0.1)
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_reported_in_one_line(name):
    with pytest.raises(fp.SettingError, match=rf"\A{name} must be [^\n]+, got [^\n]+\Z"):
        BAD[name]()
