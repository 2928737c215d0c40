"""``Objective`` fulfils its definition, and fixed points fulfil Theorem 2 and Corollary 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import fedplus as fp

pytestmark = pytest.mark.usefixtures("x64_throughout")

N, D, ROWS, DELTA = 5, 4, 9, 0.3
LAYOUT = (("body", 2), ("head", 2))
PSIS = {
    "zero": fp.Zero(),
    "anchor": fp.Anchor(),
    "quadratic": fp.Quadratic(DELTA),
    "l2": fp.L2(DELTA),
    "l1": fp.L1(DELTA),
    "blocks": fp.Blocks({"head": fp.L1(DELTA), "*": fp.Quadratic(DELTA)}, LAYOUT),
    "custom": fp.Custom(  # The elastic net.
        lambda x: DELTA * jnp.sum(jnp.abs(x)) + 0.5 * DELTA * jnp.sum(x**2),
        lambda x: jnp.sign(x) * jnp.maximum(jnp.abs(x) - DELTA, 0) / (1 + DELTA),
    ),
}
# ψ(θ) = ½ Σ_j c_j θ_j² + δ Σ_g ‖θ_g‖₂ in plain NumPy: c, and the members of each group g.
PLAIN = {
    "zero": (np.zeros(D), np.zeros((0, D))),
    "quadratic": (np.full(D, DELTA), np.zeros((0, D))),
    "l2": (np.zeros(D), np.ones((1, D))),
    "l1": (np.zeros(D), np.eye(D)),
    "blocks": (np.array([DELTA] * 2 + [0.0] * 2), np.eye(D)[2:]),
    "custom": (np.full(D, DELTA), np.eye(D)),
}
every_psi = pytest.mark.parametrize("name", PSIS)
every_plain = pytest.mark.parametrize("name", PLAIN)
random_points = settings(deadline=None, max_examples=10, derandomize=True, database=None)
seeds = st.integers(0, 2**32 - 1)


def loss(w, data):
    x, y = data
    return 0.5 * jnp.mean((x @ w - y) ** 2)


def federation(name):
    """Return a least-squares objective, all Q_k = ∇²f_k and b_k = Q_k argmin f_k, and L_f."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, ROWS, D))
    true = rng.normal(size=D) + 0.4 * rng.normal(size=(N, D))
    true[-1] *= -4
    y = np.einsum("kmd,kd->km", x, true) + 0.3 * rng.normal(size=(N, ROWS))
    q = np.einsum("kmd,kme->kde", x, x) / ROWS
    lipschitz = float(np.linalg.eigvalsh(q).max())
    goal = fp.Objective(psi=PSIS[name], sigma=0.1 * lipschitz, loss=loss, data=(x, y))
    return goal, q, np.einsum("kmd,km->kd", x, y) / ROWS, lipschitz


def solve_exactly(goal, q, b, z):
    """Return each party's argmin of f_k(w) + σ/2‖w − z_k‖²."""
    return jnp.linalg.solve(q + goal.sigma * jnp.eye(D), (b + goal.sigma * z)[..., None])[..., 0]


def envelope_grads(goal, q, b, z):
    """Return ∇f̂_k(z_k), from f̂_k(z) = ½(z − q⁻¹b)ᵀ σq(q + σ)⁻¹ (z − q⁻¹b) + constant."""
    slope = q @ np.asarray(z)[..., None] - b[..., None]
    return goal.sigma * np.linalg.solve(q + goal.sigma * np.eye(D), slope)[..., 0]


@jax.jit
def settle(goal, q, b):
    """Alternate exact local solves and aggregation; return W*, w̃* and the length of the last step."""

    def iterate(state, _):
        w_local, w_global = state
        solved = solve_exactly(goal, q, b, w_global + goal.theta(w_local, w_global))
        new = solved, fp.Moreau(goal.psi)(solved, start=w_global).w
        return new, jnp.max(jnp.abs(new[0] - w_local)) + jnp.max(jnp.abs(new[1] - w_global))

    (w_local, w_global), moved = jax.lax.scan(iterate, (jnp.ones((N, D)), jnp.ones(D)), length=2000)
    return w_local, w_global, moved[-1]


def fixed_point(name):
    goal, q, b, _ = federation(name)
    w_local, w_global, moved = settle(goal, q, b)
    assert moved < 1e-13
    return goal, q, b, w_local, w_global


def near(actual, desired, atol=1e-10):
    np.testing.assert_allclose(actual, desired, rtol=0, atol=atol)


@every_psi
def test_fixed_points_satisfy_theorem_2(name):
    """Σ_k ∇f̂_k(z_k) = 0 and w_k = z_k − ∇f̂_k(z_k)/σ; F_σ is minimal and both residuals are 0."""
    goal, q, b, w_local, w_global = fixed_point(name)
    z = w_global + goal.theta(w_local, w_global)
    grads = envelope_grads(goal, q, b, z)
    near(grads.mean(axis=0), 0)
    near(w_local, z - grads / goal.sigma)
    for residual in goal.fixed_point(w_local, w_global):
        near(residual, 0)
    near(goal.grad_f_sigma(w_local), 0, atol=1e-6)  # It computes w̃ again, up to 1e-6.


@every_psi
def test_residuals_are_large_at_a_random_point(name):
    """For ψ = 0 the consensus residual is 0 for any w̃."""
    goal = federation(name)[0]
    rng = np.random.default_rng(2)
    consensus, local = goal.fixed_point(rng.normal(size=(N, D)), rng.normal(size=D))
    assert local.min() > 1e-2
    assert consensus < 1e-12 if name == "zero" else consensus > 1e-2


@pytest.mark.parametrize("name", ["zero", "l2", "blocks"])
def test_a_round_of_fed_plus_does_not_move_a_fixed_point(name):
    """Theorem 2 needs no exact local solves: it holds for any E_k."""
    goal, _, _, w_local, w_global = fixed_point(name)
    method = fp.FedPlus(fp.LocalSolve(goal.psi, eta=0.05 / goal.sigma, sigma=goal.sigma))
    batches = jax.tree.map(lambda leaf: np.stack([leaf] * N, axis=1), goal.data)
    work = fp.Work(jnp.arange(N), batches, jnp.arange(N))
    run_round = jax.jit(lambda method, state, work: method.round(state, work, jax.grad(loss))[0])
    state = run_round(method, fp.State(w_global, w_local), work)
    near(state.w_local, w_local)
    near(state.w_global, w_global)


def test_without_regularisation_each_party_minimises_its_own_loss():
    """Corollary 1 (a): for Ψ = 0 each w_k minimises f_k."""
    _, q, b, w_local, _ = fixed_point("zero")
    near(w_local, np.linalg.solve(q, b[..., None])[..., 0])


def test_without_personal_parts_the_fixed_point_is_that_of_fedprox():
    """Corollary 1 (b): for v_k = 0, w̃ solves the linear system Σ_k ∇f̂_k(w̃) = 0."""
    goal, q, b, w_local, w_global = fixed_point("anchor")
    inverse = np.linalg.inv(q + goal.sigma * np.eye(D))
    near(w_global, np.linalg.solve((inverse @ q).sum(0), (inverse @ b[..., None]).sum(0)[:, 0]))
    grads = envelope_grads(goal, q, b, np.tile(w_global, (N, 1)))
    near(w_local, w_global - grads / goal.sigma)


def test_with_quadratic_regularisation_fixed_points_satisfy_corollary_1_c():
    """Corollary 1 (c): w_k = w̃ − (1+δ)/(σδ) ∇f̂_k((w_k + δw̃)/(1+δ)), w̃ the mean."""
    goal, q, b, w_local, w_global = fixed_point("quadratic")
    grads = envelope_grads(goal, q, b, (w_local + DELTA * w_global) / (1 + DELTA))
    near(w_local, w_global - (1 + DELTA) / (goal.sigma * DELTA) * grads)
    near(w_global, w_local.mean(axis=0))


@pytest.mark.parametrize("name", ["zero", "l2"])
def test_many_steps_approach_the_exact_local_solution(name):
    """Assumption 2: E_k steps reduce the distance by the factor (1 − (μ+σ)/(L_f+σ))^E_k."""
    goal, q, b, lipschitz = federation(name)
    local = fp.LocalSolve(goal.psi, eta=1 / lipschitz, sigma=goal.sigma)
    rng = np.random.default_rng(3)
    w_local, w_global = rng.normal(size=(N, D)), rng.normal(size=D)
    best = solve_exactly(goal, q, b, w_global + goal.theta(w_local, w_global))
    mu = np.linalg.eigvalsh(q)[:, 0]
    rate = 1 - (mu + goal.sigma) / (lipschitz + goal.sigma)

    def run(w_k, data_k, steps):
        batches = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (400, *leaf.shape)), data_k)
        return local(w_k, w_global, batches, steps, jax.grad(loss))

    run = jax.jit(jax.vmap(run, (0, 0, None)))
    for steps in (1, 10, 100, 400):
        error = jnp.linalg.norm(run(w_local, goal.data, steps) - best, axis=1)
        assert (error <= rate**steps * jnp.linalg.norm(w_local - best, axis=1) + 1e-13).all()
    near(error, 0)


@every_plain
@random_points
@given(seed=seeds)
def test_h_equals_a_sum_over_the_parties_in_numpy(name, seed):
    """The sum is eq. (FPz)."""
    goal = federation(name)[0]
    w_local, theta, w_global = draw(seed)
    c, groups = PLAIN[name]
    total = 0.0
    for x, y, w_k, theta_k in zip(*goal.data, w_local, theta, strict=True):
        psi = 0.5 * c @ theta_k**2 + DELTA * np.sqrt(groups @ theta_k**2).sum()
        gap = 0.5 * np.sum((w_k - (w_global + theta_k)) ** 2)
        total += 0.5 * np.mean((x @ w_k - y) ** 2) + goal.sigma * (psi + gap)
    np.testing.assert_allclose(goal.h(w_local, theta, w_global), total / N, rtol=1e-13)


def draw(seed):
    """Draw W, Θ and w̃, with the first two parties near each other."""
    points = np.random.default_rng(seed).normal(size=(2 * N + 1, D))
    points[1] = points[0] + 0.01 * points[1]
    return points[:N], points[N:-1], points[-1]


@every_psi
@random_points
@given(seed=seeds, nearness=st.floats(0, 1))
def test_f_sigma_is_at_most_h(name, seed, nearness):
    """Eq. (Fmu): F_σ(W) ≤ H_σ(W, Θ, w̃) for all Θ and w̃, also near the minimisers."""
    goal = federation(name)[0]
    w_local, theta, w_global = draw(seed)
    w_best = fp.Moreau(goal.psi)(w_local).w
    best = goal.theta(w_local, w_best)
    theta, w_global = best + nearness**4 * theta, w_best + nearness**4 * w_global
    height = goal.f_sigma(w_local)
    assert height <= goal.h(w_local, theta, w_global) * (1 + 1e-12)
    np.testing.assert_allclose(goal.h(w_local, best, w_best), height, rtol=1e-12)


@every_plain
def test_f_sigma_equals_the_minimum_that_scipy_finds(name):
    """Eq. (Fmu): SciPy minimises H_σ over Θ, w̃ and upper bounds of each ‖θ_g‖."""
    goal = federation(name)[0]
    w_local = draw(2)[0]
    c, groups = PLAIN[name]

    def parts(v):
        theta, w_global, norms = jnp.split(v, [N * D, N * D + D])
        return theta.reshape(N, D), w_global, norms.reshape(N, len(groups))

    @jax.jit
    @jax.value_and_grad
    def height(v):
        theta, w_global, norms = parts(v)
        gap = jnp.sum((w_local - w_global - theta) ** 2)
        return 0.5 * gap + 0.5 * jnp.sum(c * theta**2) + DELTA * jnp.sum(norms)

    def room(v):
        theta, _, norms = parts(v)
        return (norms - jnp.sqrt(theta**2 @ groups.T + 1e-18)).ravel()

    above = {"type": "ineq", "fun": jax.jit(room), "jac": jax.jit(jax.jacobian(room))}
    start = np.concatenate([np.zeros(N * D), w_local.mean(axis=0), np.ones(N * len(groups))])
    found = minimize(
        height, start, jac=True, method="SLSQP", constraints=[above] if len(groups) else [],
        options={"ftol": 1e-12, "maxiter": 1000},
    )  # fmt: skip
    least = (goal.losses(w_local).sum() + goal.sigma * found.fun) / N
    near(goal.f_sigma(w_local), least, atol=1e-8)


@every_psi
@pytest.mark.parametrize("seed", range(3))
def test_grad_f_sigma_equals_central_differences_of_f_sigma(name, seed):
    """∂F_σ/∂w_k = ∇F_k/N at w̃ = 𝒜(W)."""
    goal = federation(name)[0]
    w_local, direction, _ = draw(seed)
    step = 1e-4 * direction
    slope = (goal.f_sigma(w_local + step) - goal.f_sigma(w_local - step)) / 2e-4
    np.testing.assert_allclose(jnp.vdot(goal.grad_f_sigma(w_local), direction), slope, atol=1e-7)


BAD = [("sigma", 0), ("sigma", -1.0), ("sigma", float("nan")), ("sigma", "1"), ("psi", 0.1)]
BAD += [("psi", fp.L1), ("loss", 3), ("loss", None)]


@pytest.mark.parametrize(("field", "bad"), BAD)
def test_bad_settings_of_the_objective_are_reported_in_one_line(field, bad):
    """A bad σ, ψ or loss raises a SettingError that names it."""
    good = {"psi": fp.Zero(), "sigma": 1.0, "loss": loss, "data": np.zeros(N)}
    with pytest.raises(fp.SettingError, match=rf"^Objective\.{field} must be [^\n]+$"):
        fp.Objective(**(good | {field: bad}))
