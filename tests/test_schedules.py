"""Schedules: their values, their use in place of numbers, and when they are constant."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedplus as fp
from fedplus import baselines as b
from fedplus import presets
from fedplus.schedules import (
    Cosine,
    Function,
    Inverse,
    Linear,
    WarmUp,
    at_round,
    constant_from,
    schedules_of,
)
from fedplus.server_optimizer import AdaptiveServer

numbers = st.floats(-10, 10)
lengths = st.integers(1, 50)
LAYOUT = (("body", 2), ("head", 1))


@given(first=numbers, last=numbers, rounds=lengths, t=st.integers(0, 100))
def test_linear_and_cosine_follow_their_formulas(first, last, rounds, t):
    u = min(t / rounds, 1)
    close = partial(pytest.approx, rel=1e-12, abs=1e-12)
    assert Linear(first, last, rounds)(t) == close(first + u * (last - first))
    wave = last + (first - last) * (1 + math.cos(math.pi * u)) / 2
    assert Cosine(first, last, rounds)(t) == close(wave)


@given(first=numbers, then=numbers, rounds=st.integers(0, 50), t=st.integers(0, 100))
def test_warm_up_and_inverse_follow_their_formulas(first, then, rounds, t):
    assert WarmUp(rounds, first, then)(t) == (first if t < rounds else then)
    assert Inverse(first, abs(then))(t) == pytest.approx(first / (1 + abs(then) * t))


SCHEDULES = {
    "linear": Linear(0.3, 0.1, rounds=7),
    "cosine": Cosine(0.3, 0.1, rounds=7),
    "warm-up": WarmUp(rounds=7, first=0.3, then=0.1),
    "inverse": Inverse(0.3, rate=0.5),
    "function": Function(lambda t: 0.3 * 0.9**t),
    "optax": Function(optax.cosine_decay_schedule(0.3, 7)),
}
every_schedule = pytest.mark.parametrize("name", SCHEDULES)


@every_schedule
def test_a_traced_round_gives_the_same_value_as_a_number(name):
    schedule = SCHEDULES[name]
    traced = jax.jit(lambda schedule, t: schedule(t))
    for t in range(12):
        assert float(traced(schedule, t)) == pytest.approx(float(schedule(t)), rel=1e-6)


@every_schedule
def test_a_schedule_is_constant_from_the_round_that_it_states(name):
    schedule = SCHEDULES[name]
    begin = constant_from(presets.fedavg(eta=schedule))
    if begin == math.inf:
        assert name in ("inverse", "function", "optax")
        return
    values = [float(schedule(t)) for t in range(30)]
    assert begin == 7
    assert len(set(values[7:])) == 1
    assert values[6] != values[7]


def test_a_method_is_constant_from_the_last_of_its_schedules_on():
    method = presets.fedavg_plus(eta=0.1, sigma=1.0)
    assert constant_from(method) == 0
    assert schedules_of(method) == []
    assert at_round(method, 3) is method
    method = method.replace(eta=Linear(0.1, 0.05, rounds=4), lam=WarmUp(rounds=9))
    assert constant_from(method) == 9
    assert len(schedules_of(method)) == 2
    assert constant_from(method.replace(sigma=lambda t: 1.0)) == math.inf


def test_at_round_replaces_schedules_wherever_a_method_has_numbers():
    """These are Local-Solve, ψ, settings by layer and the server's optimizer."""
    rise = Linear(0.0, 1.0, rounds=4)
    local = fp.LocalSolve(
        fp.Blocks({"head": fp.L1(Linear(0.1, 0.5, rounds=4)), "*": fp.L2(0.2)}, LAYOUT),
        eta=fp.ByLayer({"head": Linear(0.2, 0.4, rounds=4), "*": 0.1}, LAYOUT),
        sigma=rise,
        lam=rise,
    )
    server = AdaptiveServer("adam", eta=Linear(1.0, 0.0001, rounds=4))
    method = fp.FedPlus(local, server_optimizer=server)
    now = at_round(method, 2)
    assert schedules_of(now) == []
    assert now.local.sigma == now.local.lam == 0.5
    assert now.local.psi.parts["head"].delta == pytest.approx(0.3)
    assert now.local.psi.parts["*"].delta == 0.2
    np.testing.assert_allclose(now.local.eta.vector, [0.1, 0.1, 0.3])
    assert now.server_optimizer.eta == pytest.approx(0.50005)
    assert list(now.local.eta.values) == ["head", "*"]  # The first match wins.


def test_a_function_of_the_round_stands_in_the_place_of_a_number():
    """So does an Optax schedule, also in a setting by layer."""
    method = presets.fedprox(eta=lambda t: 0.1 * 0.5**t, sigma=optax.linear_schedule(1.0, 0.0, 4))
    now = at_round(method, 2)
    assert now.local.eta == pytest.approx(0.025)
    assert now.local.sigma == pytest.approx(0.5)
    layered = fp.ByLayer({"head": lambda t: 0.5**t, "*": 1.0}, LAYOUT)
    np.testing.assert_allclose(at_round(layered, 2).vector, [1, 1, 0.25])
    method = fp.Layers({"head": fp.Layer(eta=0.2), "*": fp.Layer()}, LAYOUT).method(
        eta=lambda t: 0.1 * 0.5**t
    )
    np.testing.assert_allclose(at_round(method, 1).local.eta.vector, [0.05, 0.05, 0.2])


@pytest.mark.filterwarnings("ignore::fedplus.KappaWarning")
def test_presets_that_compute_with_the_learning_rate_take_schedules():
    """MR-MTL computes η/(1 − ηλ), and Local Fixed Point computes λη."""
    for eta in (Linear(0.2, 0.1, rounds=2), lambda t: 0.2 * 0.75**t):
        for t, now in ((0, 0.2), (1, 0.15)):
            method = at_round(presets.mr_mtl(eta=eta, lam=0.5), t)
            assert method.local.eta == pytest.approx(presets.mr_mtl(eta=now, lam=0.5).local.eta)
            method = at_round(presets.local_fixed_point(eta=eta, relaxation=0.5), t)
            assert method.local.eta == pytest.approx(0.5 * now)
    with pytest.raises(fp.SettingError, match=r"in \[0, 1\), got"):
        presets.mr_mtl(eta=Linear(0.1, 3.0, rounds=5), lam=0.5)


@every_schedule
def test_schedules_are_numbers_for_vmap(name):
    """A sweep stacks the numbers of several schedules of one kind."""
    schedule = SCHEDULES[name]
    half = jax.tree.map(lambda x: x / 2, schedule)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), schedule, half)
    values = jax.vmap(lambda s: jnp.asarray(at_round(s, jnp.array(3)), float), axis_size=2)(stacked)
    np.testing.assert_allclose(values, [schedule(3), half(3)], rtol=1e-6)


def test_a_round_without_at_round_is_rejected_with_advice():
    method = presets.fedavg_plus(eta=0.1, sigma=WarmUp(rounds=3))
    work = fp.Work(np.arange(2), np.zeros((2, 1, 1)), 1)
    with pytest.raises(fp.SettingError, match=r"Call at_round\(method, t\) first\."):
        method.round(method.init(np.zeros(3), 2), work, lambda w, batch: w)


def test_a_learning_rate_may_decrease_to_0():
    """It may be 0 at the end of a cosine, or by underflow; but a constant 0 is an error."""
    presets.fedavg(eta=Cosine(0.1, 0.0, rounds=20))
    presets.fedavg(eta=lambda t: 0.1 * 0.5**t)
    with pytest.raises(fp.SettingError, match=r"^LocalSolve\.eta must be [^\n]+ > 0, got 0"):
        presets.fedavg(eta=0.0)


BAD = [
    (lambda: presets.fedavg(eta=Linear(0.1, -0.1, rounds=10)), "LocalSolve.eta"),
    (lambda: presets.fedavg(eta=WarmUp(rounds=500, first=0.1, then=-0.1)), "LocalSolve.eta"),
    (lambda: presets.fedprox(eta=0.1, sigma=lambda t: -1.0), "LocalSolve.sigma"),
    (lambda: presets.fedavg(eta=0.1).replace(lam=WarmUp(rounds=2, first=2.0)), "LocalSolve.lam"),
    (lambda: presets.fedavg(eta=0.1).replace(fine_tune=WarmUp(rounds=2)), "FedPlus.fine_tune"),
    (lambda: b.APFL(eta=0.1, adaptive=WarmUp(rounds=2)), "APFL.adaptive"),
    (lambda: fp.L2(Linear(1.0, -1.0, rounds=3)), "delta"),
    (lambda: Linear(0.1, 0.2, rounds=0), "Linear.rounds"),
    (lambda: Cosine(0.1, float("nan"), rounds=3), "Cosine.last"),
    (lambda: WarmUp(rounds=1.5), "WarmUp.rounds"),
    (lambda: Inverse(0.1, rate=-1.0), "Inverse.rate"),
    (lambda: Function(3), "Function.function"),
]


@pytest.mark.parametrize(("make", "name"), BAD)
def test_a_schedule_that_takes_a_bad_value_in_some_round_is_rejected_in_one_line(make, name):
    with pytest.raises(fp.SettingError, match=rf"{name} must be [^\n]+\Z"):
        make()
