"""On convex problems with known solutions, each baseline converges to its own solution."""

import jax
import numpy as np
import pytest
from baseline_settings import EVERY
from least_squares import GRAD, D, N, Parties, run_round

import fedplus as fp
from fedplus import baselines as b
from fedplus import presets

pytestmark = pytest.mark.usefixtures("x64")
W0 = np.zeros(D)
PARTIES = Parties(spread=2.0, seed=3)


def run_to_convergence(method, steps, rounds, weights=None):
    """Return the state after so many rounds with full gradients."""
    state = method.init(W0, N)
    batches = tuple(map(jax.numpy.asarray, PARTIES.full(steps)))
    held = tuple(part[:, 0] for part in batches)

    @jax.jit
    def next_state(state, key):
        work = fp.Work(np.arange(N), batches, np.full(N, steps), weights, key=key, validation=held)
        return method.round(state, work, GRAD)[0]

    for t in range(rounds):
        state = next_state(state, jax.random.key(t))
    return state


@pytest.mark.parametrize(
    "method",
    [b.Scaffold(eta_l=0.1), b.Scaffold(eta_l=0.1, option=1), b.FedSplit(s=1.0, eta=0.3)],
    ids=["scaffold-2", "scaffold-1", "fedsplit"],
)
def test_scaffold_and_fedsplit_reach_the_global_optimum_where_fedavg_does_not(method):
    """FedAvg with several full gradient steps has another fixed point, which is known."""
    steps = 40 if isinstance(method, b.FedSplit) else 10
    found = np.asarray(run_to_convergence(method, steps, 400).w_global)
    np.testing.assert_allclose(found, PARTIES.optimum(), rtol=1e-5, atol=1e-6)
    fedavg = np.asarray(run_to_convergence(presets.fedavg(eta=0.1), 10, 400).w_global)
    hs, gs = PARTIES.hessians()
    powers = [np.linalg.matrix_power(np.eye(D) - 0.1 * h, 10) for h in hs]
    fixed = np.linalg.solve(
        sum(np.eye(D) - m for m in powers),
        sum(
            (np.eye(D) - m) @ np.linalg.solve(h, g) for m, h, g in zip(powers, hs, gs, strict=True)
        ),
    )
    np.testing.assert_allclose(fedavg, fixed, rtol=1e-6)
    assert np.linalg.norm(fedavg - PARTIES.optimum()) > 0.05


@pytest.mark.parametrize("option", [1, 2])
def test_scaffold_minimises_the_weighted_loss_if_parties_have_weights(option):
    """The minimum of Σ p_k f_k is where the weighted sum of the gradients H_k w − g_k is 0."""
    weights = np.array([10.0, 1.0, *[2.0] * (N - 2)])
    method = b.Scaffold(eta_l=0.1, option=option)
    found = np.asarray(run_to_convergence(method, 10, 400, weights).w_global)
    hs, gs = (np.stack(one) for one in PARTIES.hessians())
    minimum = np.linalg.solve(np.tensordot(weights, hs, 1), weights @ gs)
    np.testing.assert_allclose(found, minimum, rtol=1e-5, atol=1e-6)
    assert np.linalg.norm(minimum - PARTIES.optimum()) > 0.05


def test_ditto_reaches_its_personal_optima():
    """v_k minimises f_k(v) + λ/2 ‖v − w*‖², where w* is the fixed point of FedAvg."""
    lam = 0.7
    state = run_to_convergence(b.Ditto(eta=0.1, lam=lam), 10, 500)
    w = np.asarray(state.w_global)
    hs, gs = PARTIES.hessians()
    for v, h, g in zip(np.asarray(state.v_local), hs, gs, strict=True):
        np.testing.assert_allclose(v, np.linalg.solve(h + lam * np.eye(D), g + lam * w), rtol=1e-6)


def test_pfedme_reaches_the_minimum_of_its_moreau_envelopes():
    """It minimises the sum of the envelopes of f_k, whose Hessians are λ(I − λ(H_k + λI)^-1)."""
    lam = 3.0
    state = run_to_convergence(b.PFedMe(eta=0.1, lam=lam, eta_inner=0.15, inner=80), 1, 2000)
    hs, gs = PARTIES.hessians()
    inverse = [np.linalg.inv(h + lam * np.eye(D)) for h in hs]
    left = sum(np.eye(D) - lam * i for i in inverse)
    right = sum(i @ g for i, g in zip(inverse, gs, strict=True))
    w = np.linalg.solve(left, right)
    np.testing.assert_allclose(state.w_global, w, rtol=1e-4)
    for theta, i, g in zip(np.asarray(state.theta), inverse, gs, strict=True):
        np.testing.assert_allclose(theta, i @ (g + lam * w), rtol=1e-4)


def test_l2gd_approaches_the_minimum_of_its_mixture():
    """The random steps leave noise, which is small for a small α."""
    lam, p = 1.5, 0.4
    method = b.L2GD(alpha=0.02, lam=lam, p=p)
    hs, gs = PARTIES.hessians()
    h = np.zeros((N * D, N * D))
    for k in range(N):
        h[k * D : (k + 1) * D, k * D : (k + 1) * D] = hs[k]
    centring = np.kron(np.eye(N) - np.ones((N, N)) / N, np.eye(D))
    best = np.linalg.solve(h + lam * centring, np.concatenate(gs)).reshape(N, D)
    state = run_to_convergence(method, 100, 300)
    np.testing.assert_allclose(state.w_local, best, rtol=0.1, atol=0.05)
    error = np.abs(np.asarray(state.w_local) - best).max()
    local = np.stack([np.linalg.solve(h, g) for h, g in zip(hs, gs, strict=True)])
    assert error < 0.1 * np.abs(local - best).max()


@pytest.mark.parametrize("variant", ["fo", "hf"])
def test_per_fedavg_is_better_after_adaptation_than_fedavg(variant):
    """It minimises the loss after adaptation; "hf" with one local step does so exactly."""
    alpha = 0.3
    method = b.PerFedAvg(alpha=alpha, beta=0.2, variant=variant, delta=0.1)
    state = run_to_convergence(method, 1, 3000)
    hs, gs = PARTIES.hessians()

    def loss_after_adaptation(w):
        adapted = [w - alpha * (h @ w - g) for h, g in zip(hs, gs, strict=True)]
        return np.mean([0.5 * v @ h @ v - g @ v for v, h, g in zip(adapted, hs, gs, strict=True)])

    found = np.asarray(state.w_global)
    if variant == "hf":
        shrink = [np.eye(D) - alpha * h for h in hs]
        left = sum(m @ h @ m for m, h in zip(shrink, hs, strict=True))
        right = sum(m @ (g - alpha * h @ g) for m, h, g in zip(shrink, hs, gs, strict=True))
        np.testing.assert_allclose(found, np.linalg.solve(left, right), rtol=1e-5)
    assert loss_after_adaptation(found) < loss_after_adaptation(PARTIES.optimum())


def test_hypcluster_finds_two_groups():
    """Parties 0-2 and parties 3-4 have opposite labels, and each group gets its own model."""
    two = Parties(seed=1, spread=0.0)
    for k in (3, 4):
        two.y[k] = -two.y[k]
    method = b.HypCluster(eta=0.1, q=2, spread=0.5)
    state = method.init(W0, N)
    work = fp.Work(np.arange(N), tuple(map(jax.numpy.asarray, two.full(10))), np.full(N, 10))
    for _ in range(60):
        state, _ = run_round(method, state, work)
    choice = np.asarray(state.choice)
    assert len(set(choice[:3])) == len(set(choice[3:])) == 1
    assert choice[0] != choice[3]
    hs, gs = two.hessians()
    for k, w in enumerate(np.asarray(method.models(state))):
        np.testing.assert_allclose(w, np.linalg.solve(hs[k], gs[k]), atol=1e-4)


def test_apfl_learns_to_prefer_the_own_model_if_parties_differ():
    """α grows, and the mixture has a much lower loss than the global model."""
    state = run_to_convergence(b.APFL(eta=0.1, alpha=0.5), 10, 200)
    losses = [0.5 * np.mean((x @ w - y) ** 2) for x, y, w in zip(
        PARTIES.x, PARTIES.y, np.asarray(b.APFL(eta=0.1).models(state)), strict=True)]  # fmt: skip
    common = [0.5 * np.mean((x @ np.asarray(state.w_global) - y) ** 2)
              for x, y in zip(PARTIES.x, PARTIES.y, strict=True)]  # fmt: skip
    assert np.mean(losses) < 0.01 * np.mean(common)
    assert np.asarray(state.alpha).min() > 0.5


def test_mapper_and_fedfomo_serve_parties_better_than_a_common_model():
    for name in ("mapper", "fedfomo"):
        method = EVERY[name]
        state = run_to_convergence(method, 10, 100)
        models = np.asarray(method.models(state))
        own = [
            np.mean((x @ w - y) ** 2) for x, y, w in zip(PARTIES.x, PARTIES.y, models, strict=True)
        ]
        best = PARTIES.optimum()
        common = [np.mean((x @ best - y) ** 2) for x, y in zip(PARTIES.x, PARTIES.y, strict=True)]
        assert np.mean(own) < 0.1 * np.mean(common)
