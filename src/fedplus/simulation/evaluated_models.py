"""The models that are evaluated: the parties' models, after local steps if the method adapts them."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from fedplus._types import Array, Matrix
from fedplus.algorithm import AbstractAlgorithm, AbstractLocalAdaptation
from fedplus.models import Model
from fedplus.schedules import at_round
from fedplus.simulation.cpu_devices import first_replica
from fedplus.simulation.engine import EACH_BY_NAME, Data, make_gradient
from fedplus.simulation.minibatches import minibatches
from fedplus.simulation.setup import Setup


class EvaluatedModels:
    """A function from a method, its state and the number of rounds to the parties' models, (N, d)."""

    def __init__(self, setup: Setup) -> None:
        self._plan, self._data = setup.plan, first_replica(setup.plan.cores, setup.inputs.data)

    def __call__(self, algorithm: AbstractAlgorithm[Any], state: Any, rounds: int) -> Matrix:
        """Return the model that each party uses after this many rounds."""
        adaptation = algorithm.after_training(rounds)
        algorithm = at_round(algorithm, max(rounds - 1, 0))
        if algorithm.is_stateless():  # The state may have the rows of a cohort only.
            w = algorithm.w_global(state)
            models = jnp.broadcast_to(w, (self._plan.parties, w.size))
        else:
            models = algorithm.models(state)
        if not is_adapted(algorithm):
            return models
        key = jax.random.fold_in(jax.random.key(0), rounds)
        plan = self._plan
        adapted: Matrix = adapt_models(
            plan.model, plan.batch_size, plan.each, self._data, adaptation, models, key
        )
        return adapted


def is_adapted(algorithm: AbstractAlgorithm[Any]) -> bool:
    """Return True if parties adapt their models to their own samples before they use them."""
    return isinstance(algorithm, AbstractLocalAdaptation) and algorithm.adaptation_steps > 0


@partial(jax.jit, static_argnames=("model", "batch_size", "each"))
def adapt_models(
    model: Model, batch_size: int, each: str, data: Data, algorithm: AbstractLocalAdaptation,
    models: Matrix, key: Array,
) -> Matrix:  # fmt: skip
    """Return the models after adaptation; a party whose steps diverge keeps its model."""
    words = jax.random.bits(key, data.size.shape)
    batches = minibatches(
        words, data.start, data.size, batch_size, max_steps=algorithm.adaptation_steps
    )
    adapted = algorithm.adapt(models, batches, make_gradient(model, data), EACH_BY_NAME[each])
    finite = jnp.isfinite(adapted @ jnp.ones(adapted.shape[1], adapted.dtype))
    return jnp.where(finite[:, None], adapted, models)
