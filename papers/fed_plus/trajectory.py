"""Fed+ round by round in float64: F_σ, its gradient and the residuals of Theorem 2."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedplus.algorithm import FedPlus
from fedplus.data.federation import Federation
from fedplus.experiments.runner import PreparedRun
from fedplus.models import ravel
from fedplus.objective import Objective
from fedplus.work import Work


class Trajectory(NamedTuple):
    """Arrays with one entry for the state before each round t = 0, 1, ..., T."""

    f_sigma: Any
    """F_σ(W^t), with w̃ computed from W^t."""
    gradient: Any
    """Σ_k ‖∇F_k(w_k^t; v_k^t, w̃^t)‖²."""
    consensus: Any
    """‖(1/N) Σ_k ∇f̂_k(z_k)‖, the first condition of Theorem 2."""
    local: Any
    """The maximum of ‖∇f_k(w_k) + σ(w_k − z_k)‖ over the parties, the second condition."""


def largest_curvature(federation: Federation) -> float:
    """Return L_f of least squares with an intercept: the largest curvature over the parties."""
    train = federation.train
    curvatures = []
    for k in range(federation.parties):
        x = train.party(k)[0].astype(np.float64)
        x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
        curvatures.append(np.linalg.eigvalsh(x.T @ x / len(x)).max())
    return float(max(curvatures))


def run_trajectory(
    prepared: PreparedRun, index: int, *, rounds: int, steps: int = 1, active: int | None = None,
    seed: int = 0, over: str = "all",
) -> Trajectory:  # fmt: skip
    """Run one method of a specification with full gradients in float64.

    Args:
        prepared: Federation, model and methods.
        index: Index of the method.
        rounds: Number of rounds T.
        steps: Local steps per round.
        active: Number of parties that are active in a round; None means all.
        seed: Seed of the cohorts.
        over: The parties that line 10 aggregates, "all" or "active".
    """
    algorithm = prepared.methods[index]
    assert isinstance(algorithm, FedPlus)
    algorithm = FedPlus(algorithm.local, algorithm.aggregate, over)  # type: ignore[arg-type]
    n = prepared.federation.parties
    rng = np.random.default_rng(seed)
    cohorts = np.array([rng.permutation(n)[: active or n] for _ in range(rounds)])
    with jax.enable_x64(True):
        params = ravel(prepared.model.init(jax.random.key(0)))

        def loss(w: Any, data: Any) -> Any:
            x, y = data
            outputs = prepared.model.apply(params.unravel(w), x)
            return jnp.mean(prepared.model.task.loss(outputs, y))

        pairs = [prepared.federation.train.party(k) for k in range(n)]
        data = tuple(jnp.asarray(np.stack(part), jnp.float64) for part in zip(*pairs, strict=True))
        local = algorithm.local
        objective = Objective(psi=local.psi, sigma=local.sigma, data=data, loss=loss)
        start = algorithm.init(jnp.asarray(params.w, jnp.float64), n)
        trajectory = _run_rounds(algorithm, objective, steps, start, jnp.asarray(cohorts))
        return Trajectory(*map(np.asarray, trajectory))


@partial(jax.jit, static_argnums=2)
def _run_rounds(
    algorithm: FedPlus, objective: Objective, steps: int, start: Any, cohorts: Any
) -> Trajectory:
    def gradient(w: Any, k: Any) -> Any:
        return jax.grad(objective.loss)(w, jax.tree.map(lambda leaf: leaf[k], objective.data))

    def measure(state: Any) -> Trajectory:
        residual = objective.fixed_point(state.w_local, state.w_global)
        gradients = objective.grad_f_k(state.w_local, state.w_global)
        f_sigma = objective.f_sigma(state.w_local)
        return Trajectory(f_sigma, jnp.sum(gradients**2), residual.consensus, residual.local.max())

    def run_round(state: Any, cohort: Any) -> Any:
        batches = jnp.broadcast_to(cohort[:, None], (len(cohort), steps))
        new, _ = algorithm.round(state, Work(cohort, batches, steps), gradient)
        return new, measure(state)

    last, before = jax.lax.scan(run_round, start, cohorts)
    trajectory: Trajectory = jax.tree.map(jnp.append, before, measure(last))
    return trajectory
