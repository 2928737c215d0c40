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


class Course(NamedTuple):
    """Of each round t = 0, 1, ..., T, arrays: where the run is before it."""

    f_sigma: Any
    """F_σ(W^t), w̃ found anew."""
    gradient: Any
    """Σ_k ‖∇F_k(w_k^t; v_k^t, w̃^t)‖²."""
    consensus: Any
    """‖(1/N) Σ_k ∇f̂_k(z_k)‖, the first condition of Theorem 2."""
    local: Any
    """The largest of ‖∇f_k(w_k) + σ(w_k − z_k)‖ over the parties, the second one."""


def lipschitz(federation: Federation) -> float:
    """L_f of least squares with an intercept: the largest curvature of a party."""
    train = federation.train
    curvatures = []
    for k in range(federation.parties):
        x = train.party(k)[0].astype(np.float64)
        x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
        curvatures.append(np.linalg.eigvalsh(x.T @ x / len(x)).max())
    return float(max(curvatures))


def course(
    ready: PreparedRun, number: int, *, rounds: int, steps: int = 1, active: int | None = None,
    seed: int = 0, over: str = "all",
) -> Course:  # fmt: skip
    """Play one of the methods with full gradients; ``active`` parties a round, drawn from ``seed``."""
    algorithm = ready.methods[number]
    assert isinstance(algorithm, FedPlus)
    algorithm = FedPlus(algorithm.local, algorithm.aggregate, over)  # type: ignore[arg-type]
    n = ready.federation.parties
    rng = np.random.default_rng(seed)
    cohorts = np.array([rng.permutation(n)[: active or n] for _ in range(rounds)])
    with jax.enable_x64(True):
        params = ravel(ready.model.init(jax.random.key(0)))

        def loss(w: Any, data: Any) -> Any:
            x, y = data
            outputs = ready.model.apply(params.unravel(w), x)
            return jnp.mean(ready.model.task.loss(outputs, y))

        pairs = [ready.federation.train.party(k) for k in range(n)]
        data = tuple(jnp.asarray(np.stack(part), jnp.float64) for part in zip(*pairs, strict=True))
        goal = Objective(psi=algorithm.local.psi, sigma=algorithm.local.sigma, data=data, loss=loss)
        start = algorithm.init(jnp.asarray(params.w, jnp.float64), n)
        found = _played(algorithm, goal, steps, start, jnp.asarray(cohorts))
        return Course(*map(np.asarray, found))


@partial(jax.jit, static_argnums=2)
def _played(algorithm: FedPlus, goal: Objective, steps: int, start: Any, cohorts: Any) -> Course:
    def gradient(w: Any, k: Any) -> Any:
        return jax.grad(goal.loss)(w, jax.tree.map(lambda leaf: leaf[k], goal.data))

    def look(state: Any) -> Course:
        residual = goal.fixed_point(state.w_local, state.w_global)
        gradients = goal.grad_f_k(state.w_local, state.w_global)
        height = goal.f_sigma(state.w_local)
        return Course(height, jnp.sum(gradients**2), residual.consensus, residual.local.max())

    def turn(state: Any, cohort: Any) -> Any:
        batches = jnp.broadcast_to(cohort[:, None], (len(cohort), steps))
        new, _ = algorithm.round(state, Work(cohort, batches, steps), gradient)
        return new, look(state)

    last, seen = jax.lax.scan(turn, start, cohorts)
    both = jax.tree.map(lambda all_, one: jnp.append(all_, one), seen, look(last))
    result: Course = both
    return result
