"""The paper's Propositions 1 and 2 and Theorem 1, on the library's own code.

Each party fits link(x·w) to y. The link is the identity (convex) or tanh (not convex); L_f is known
for both. Theorem 2 and Corollary 1 are in ``test_objective``.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import fedplus as fp
from fedplus import schedules

pytestmark = pytest.mark.usefixtures("x64_throughout")

N, D, ROWS, MAX_STEPS, ROUNDS, DELTA = 7, 5, 12, 4, 1200, 0.3
LAYOUT = (("body", 3), ("head", 2))
PARTS = {"head": fp.L1(DELTA), "*": fp.Quadratic(DELTA)}
PSIS = {
    "zero": fp.Zero(),
    "anchor": fp.Anchor(),
    "quadratic": fp.Quadratic(DELTA),
    "l2": fp.L2(DELTA),
    "l1": fp.L1(DELTA),
    "blocks": fp.Blocks(PARTS, LAYOUT),
    "custom": fp.Custom(  # The elastic net.
        lambda x: DELTA * jnp.sum(jnp.abs(x)) + 0.5 * jnp.sum(x**2),
        lambda x: 0.5 * jnp.sign(x) * jnp.maximum(jnp.abs(x) - DELTA, 0),
    ),
}
VARIANTS = {
    "FedAvg+": functools.partial(fp.presets.fedavg_plus, delta=DELTA),
    "FedGeoMed+": functools.partial(fp.presets.fedgeomed_plus, delta=DELTA),
    "FedCoMed+": functools.partial(fp.presets.fedcomed_plus, delta=DELTA),
    "hybrid": functools.partial(fp.presets.hybrid, PARTS, LAYOUT),
}
# ψ(θ) = ½ Σ_j c_j θ_j² + δ Σ_g ‖θ_g‖₂ in plain NumPy: c, and the members of each group g.
PLAIN = {
    "FedAvg+": (np.full(D, DELTA), np.zeros((0, D))),
    "FedGeoMed+": (np.zeros(D), np.ones((1, D))),
    "FedCoMed+": (np.zeros(D), np.eye(D)),
    "hybrid": (np.array([DELTA] * 3 + [0.0] * 2), np.eye(D)[3:]),
}
every_psi = pytest.mark.parametrize("psi", PSIS.values(), ids=PSIS)
every_variant = pytest.mark.parametrize("name", VARIANTS)
convex_or_not = pytest.mark.parametrize("bend", [0.0, 1.0], ids=["convex", "nonconvex"])
any_kappa = pytest.mark.filterwarnings("ignore::fedplus.KappaWarning")
random_points = settings(deadline=None, max_examples=20, derandomize=True, database=None)
seeds = st.integers(0, 2**32 - 1)


def loss(w, data):
    x, y, bend = data
    s = x @ w
    return 0.5 * jnp.mean(((1 - bend) * s + bend * jnp.tanh(s) - y) ** 2)


def federation(bend, *, flat=False):
    """Return the data of N parties, the last of them an outlier, and L_f; ``flat`` gives rank 3."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, ROWS, D)) * (np.arange(ROWS) < (3 if flat else ROWS))[:, None]
    true = rng.normal(size=D) + 0.4 * rng.normal(size=(N, D))
    true[-1] *= -4
    s = np.einsum("kmd,kd->km", x, true)
    y = (np.tanh(s) if bend else s) + 0.3 * rng.normal(size=s.shape)
    curvature = np.linalg.eigvalsh(np.einsum("kmd,kme->kde", x, x) / ROWS).max()
    # With u = tanh s, |y| ≤ 1, the curvature of ½(u − y)² is (1 − u²)(1 − 3u² + 2uy), within ±4/3.
    bound = 4 / 3 if bend else 1.0
    return (x, np.clip(y, -1, 1) if bend else y, np.full(N, bend)), float(bound * curvature)


def party(goal, k):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[k], goal.data)


def make(name, bend, *, flat=False):
    """Return a variant with η = 1/L_f, its objective, and L = L_f + σ.

    All parties count from the first round on, as printed in Algorithm 1.
    """
    data, lipschitz = federation(bend, flat=flat)
    method = VARIANTS[name](eta=1 / lipschitz, sigma=0.1 * lipschitz).replace(join="first")
    goal = fp.Objective(psi=method.local.psi, sigma=method.local.sigma, loss=loss, data=data)
    return method, goal, 1.1 * lipschitz


@jax.jit
def descend(local, goal, w_k, w_global, k):
    """Run Local-Solve of party k with E_k = 0, 1, …; return the models, and F_k and ∇F_k there."""
    theta, data_k = goal.psi.prox(w_k - w_global), party(goal, k)
    batches = jax.tree.map(lambda leaf: jnp.stack([leaf] * MAX_STEPS), data_k)
    solve = lambda steps: local(w_k, w_global, batches, steps, jax.grad(loss))  # noqa: E731
    models = jax.vmap(solve)(jnp.arange(MAX_STEPS + 1))
    f_k = jax.value_and_grad(lambda w: goal.f_k(w, theta, w_global, data_k))
    return models, *jax.vmap(f_k)(models)


@jax.jit
def simulate(method, goal, cohorts, steps):
    """Return W^t, F_σ(W^t) by w̃^t, and the ‖∇F_k‖² of all parties, at each t of several runs."""

    def run_round(state, draw):
        cohort, steps, t = draw
        work = fp.Work(cohort, jnp.stack([cohort] * MAX_STEPS, axis=1), steps)
        now = schedules.at_round(method, t)
        new, _ = now.round(state, work, lambda w, k: jax.grad(loss)(w, party(goal, k)))
        grads2 = jnp.sum(goal.grad_f_k(state.w_local, state.w_global) ** 2, axis=1)
        return new, (state.w_local, goal.f_sigma(state.w_local, state.w_global), grads2)

    start = method.init(jnp.ones(D), N)
    ts = jnp.broadcast_to(jnp.arange(ROUNDS), steps.shape[:2])
    return jax.lax.map(lambda draws: jax.lax.scan(run_round, start, draws)[1], (cohorts, steps, ts))


@jax.jit
def objectives(goal, w_local):
    """Return F_σ(W^t) at each t of several runs, with w̃ computed again."""
    return jax.lax.map(lambda run: jax.lax.map(goal.f_sigma, run), w_local)


hessians = jax.jit(jax.vmap(jax.vmap(jax.hessian(loss)), (0, None)))


def runs(method, goal, *, active, most_steps=MAX_STEPS, begin=0):
    """Return S^t, W^t, F_σ(W^t) and ‖∇F_k‖² from round ``begin`` on, of four runs with random draws."""
    rngs = [np.random.default_rng(seed) for seed in range(4)]
    cohorts = np.array([[r.permutation(N)[:active] for _ in range(ROUNDS)] for r in rngs])
    steps = np.array([r.integers(1, most_steps + 1, (ROUNDS, active)) for r in rngs])
    w_local, at_w_global, grads2 = map(np.asarray, simulate(method, goal, cohorts, steps))
    heights = np.asarray(objectives(goal, w_local))
    if method.over == "all":  # Eq. (Z_w_update): w̃^t and Θ^t minimise H_σ(W^t, ·, ·).
        np.testing.assert_allclose(at_w_global[:, begin:], heights[:, begin:], rtol=1e-10)
    return tuple(values[:, begin:] for values in (cohorts, w_local, heights, grads2))


def minimum(name, goal):
    """Return the minimum and the minimiser of F_σ, by SciPy over W and w̃, with explicit envelopes."""
    c, groups = PLAIN[name]
    x, y, _ = map(jnp.asarray, goal.data)

    @jax.jit
    @jax.value_and_grad
    def height(flat):
        w_local, w_global = flat[:-D].reshape(N, D), flat[-D:]
        gap2 = (w_local - w_global) ** 2
        r2 = gap2 @ groups.T
        huber = jnp.where(
            r2 < DELTA**2, r2 / 2, DELTA * jnp.sqrt(jnp.maximum(r2, DELTA**2)) - DELTA**2 / 2
        )
        fit = jnp.sum((jnp.einsum("kmd,kd->km", x, w_local) - y) ** 2) / (2 * ROWS)
        return (fit + goal.sigma * (jnp.sum(gap2 * c / (1 + c)) / 2 + jnp.sum(huber))) / N

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 40}
    found = minimize(height, np.zeros(N * D + D), jac=True, method="L-BFGS-B", options=options)
    return found.fun, found.x[:-D].reshape(N, D)


@every_psi
@any_kappa
@random_points
@given(seed=seeds, eta=st.floats(1e-3, 1), sigma=st.floats(0.1, 10))
def test_local_steps_are_gradient_descent_on_f_k(psi, seed, eta, sigma):
    """Proposition 1: E_k steps are E_k gradient steps on F_k with learning rate ηκ, for any ψ."""
    local = fp.LocalSolve(psi, eta=eta, sigma=sigma)
    goal = fp.Objective(psi=psi, sigma=sigma, loss=loss, data=federation(1.0)[0])
    w_k, w_global = np.random.default_rng(seed).normal(size=(2, D))
    models, _, grads = descend(local, goal, w_k, w_global, seed % N)
    descended = models - eta / (1 + eta * sigma) * grads
    np.testing.assert_array_equal(models[0], w_k)
    np.testing.assert_allclose(models[1:], descended[:-1], rtol=1e-12, atol=1e-13)


@every_psi
@convex_or_not
@any_kappa
@random_points
@given(seed=seeds, pull=st.floats(0.01, 10))
def test_local_solve_decreases_f_k_enough(psi, bend, seed, pull):
    """Proposition 2: with η = 1/L_f, E_k ≥ 1 steps decrease F_k by at least ‖∇F_k‖² / 2(L_f + σ)."""
    data, lipschitz = federation(bend)
    sigma = pull * lipschitz
    local = fp.LocalSolve(psi, eta=1 / lipschitz, sigma=sigma)
    goal = fp.Objective(psi=psi, sigma=sigma, loss=loss, data=data)
    w_k, w_global = 2 * np.random.default_rng(seed).normal(size=(2, D))
    _, heights, grads = descend(local, goal, w_k, w_global, seed % N)
    enough = jnp.sum(grads[0] ** 2) / (2 * (lipschitz + sigma))
    assert (heights[1:] <= heights[0] - enough + 1e-13 * heights[0]).all()


@every_variant
@convex_or_not
@pytest.mark.parametrize("active", [N, 3], ids=["all", "3 of 7"])
def test_objective_never_rises_and_gradients_vanish(name, bend, active):
    """Theorem 1: F_σ decreases by Σ_{k∈S^t} ‖∇F_k‖² / 2NL per round, and Σ_k ‖∇F_k‖² tends to 0."""
    method, goal, lipschitz = make(name, bend)
    cohorts, w_local, heights, grads2 = runs(method, goal, active=active)
    enough = np.take_along_axis(grads2, cohorts, axis=2).sum(axis=2) / (2 * N * lipschitz)
    assert (np.diff(heights) <= 1e-13 * heights[0, 0] - enough[:, :-1]).all()
    assert grads2[:, -1].sum(axis=1).mean() < 1e-7 * grads2[:, 0].sum(axis=1).mean()
    assert (np.linalg.eigvalsh(hessians(w_local[0], goal.data)).min() < 0) == bool(bend)


@every_variant
@convex_or_not
def test_theorem_1_holds_once_schedules_are_constant_and_all_parties_have_joined(name, bend):
    """By default a party counts from its first round on (D18); before, F_σ is not what is minimised."""
    method, goal, lipschitz = make(name, bend)
    eta, sigma = method.local.eta, method.local.sigma
    scheduled = method.replace(
        join="current",
        eta=schedules.Cosine(eta / 10, eta, rounds=8),
        sigma=schedules.Linear(0.0, sigma, rounds=12),
        lam=schedules.WarmUp(rounds=20),
    )
    begin = int(schedules.constant_from(scheduled))
    assert begin == 20
    rngs = [np.random.default_rng(seed) for seed in range(4)]  # The cohorts of ``runs``.
    for rng in rngs:
        assert {k for _ in range(begin) for k in rng.permutation(N)[:3]} == set(range(N))
    cohorts, _, heights, grads2 = runs(scheduled, goal, active=3, begin=begin)
    enough = np.take_along_axis(grads2, cohorts, axis=2).sum(axis=2) / (2 * N * lipschitz)
    assert (np.diff(heights) <= 1e-13 * heights[0, 0] - enough[:, :-1]).all()
    assert grads2[:, -1].sum(axis=1).mean() < 1e-6 * grads2[:, 0].sum(axis=1).mean()


@pytest.mark.parametrize("name", ["FedAvg+", "FedGeoMed+"])
@convex_or_not
def test_aggregating_active_parties_only_may_raise_the_objective(name, bend):
    """Theorem 1 needs over="all": with over="active" (D1), F_σ can increase."""
    method, goal, _ = make(name, bend)
    heights = runs(dataclasses.replace(method, over="active"), goal, active=3)[2]
    assert np.diff(heights).max() > 1e-6 * heights[0, 0]


@every_variant
@pytest.mark.parametrize("flat", [False, True], ids=["strongly convex", "convex"])
def test_with_convex_losses_and_all_parties_the_rate_is_1_over_t(name, flat):
    """Theorem 1, convex: t(F_σ(W^t) − min F_σ) is bounded, and F_σ(W^t) tends to min F_σ.

    With L = L_f + σ: for E_k = 1, Fed+ is gradient descent on F_σ with learning rate N/L, so the bound
    is L‖W^0 − W*‖²/2N. Else it is 2LR²/N, where R is the largest distance of W^t from W*.
    """
    method, goal, lipschitz = make(name, 0.0, flat=flat)
    least, best = minimum(name, goal)
    for most_steps in (1, MAX_STEPS):
        _, w_local, heights, _ = runs(method, goal, active=N, most_steps=most_steps)
        away2 = ((w_local - best) ** 2).sum(axis=(2, 3))
        bound = away2[0, 0] / 2 if most_steps == 1 else 2 * away2.max()
        assert (np.arange(ROUNDS) * (heights - least)).max() <= lipschitz / N * bound
    np.testing.assert_allclose(heights[:, -1], least, rtol=1e-7 if flat else 1e-12)
