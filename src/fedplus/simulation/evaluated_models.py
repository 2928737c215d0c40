"""The models that are judged: as the method keeps them, or after a step of the parties' own."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from fedplus._types import Array, Matrix
from fedplus.algorithm import AbstractAlgorithm
from fedplus.baselines.base import AbstractAdapting
from fedplus.simulation.cpu_devices import first_replica
from fedplus.simulation.engine import EACH, Data, Plan, gradient
from fedplus.simulation.minibatches import minibatches
from fedplus.simulation.setup import Setup


class EvaluatedModels:
    """Call it on a method, its state and the number of rounds done: (N, d)."""

    def __init__(self, setup: Setup) -> None:
        self._plan, self._data = setup.plan, first_replica(setup.plan.cores, setup.inputs.data)

    def __call__(self, algorithm: AbstractAlgorithm[Any], state: Any, rounds: int) -> Matrix:
        """The models that the parties use."""
        models = algorithm.models(state)
        if not isinstance(algorithm, AbstractAdapting):
            return models
        key = jax.random.fold_in(jax.random.key(0), rounds)
        adapted: Matrix = _adapted(self._plan, self._data, algorithm, models, key)
        return adapted


@partial(jax.jit, static_argnames="plan")
def _adapted(
    plan: Plan, data: Data, algorithm: AbstractAdapting, models: Matrix, key: Array
) -> Matrix:
    words = jax.random.bits(key, data.size.shape)
    batches = minibatches(words, data.start, data.size, plan.batch_size, most=1)
    adapted = algorithm.adapt(models, batches, gradient(plan.model, data), EACH[plan.each])
    finite = jnp.isfinite(adapted @ jnp.ones(adapted.shape[1], adapted.dtype))
    return jnp.where(finite[:, None], adapted, models)
