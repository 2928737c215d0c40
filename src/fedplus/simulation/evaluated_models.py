"""The models that are evaluated: the parties' models, after local steps if the method adapts them."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, Matrix, Vector
from fedplus.algorithm import AbstractAlgorithm, AbstractLocalAdaptation
from fedplus.models import Model
from fedplus.schedules import at_round
from fedplus.simulation.cpu_devices import first_replica
from fedplus.simulation.engine import EACH_BY_NAME, Data, make_divergence_test, make_gradient
from fedplus.simulation.minibatches import minibatches
from fedplus.simulation.setup import Setup
from fedplus.work import Work


class Adapted(NamedTuple):
    """The models that parties use."""

    models: Matrix
    """(N, d)."""
    diverged: Array | None
    """(N,): how often the steps diverged with which a party adapts its model. They are repeated with
    smaller steps; after ``RETRIES`` + 1 times, the party uses the model as it is. None: the method
    does not adapt models."""


class EvaluatedModels:
    """A function from a method, its state and the number of rounds to the parties' models.

    Args:
        setup: The run.
        lane: The lane whose models are evaluated.
    """

    def __init__(self, setup: Setup, lane: int) -> None:
        self._plan, self._data = setup.plan, first_replica(setup.plan.cores, setup.inputs.data)
        w_first = first_replica(setup.plan.cores, setup.lane.w_first)
        self._w_first = w_first[lane] if setup.plan.has_lanes else w_first

    def __call__(self, algorithm: AbstractAlgorithm[Any], state: Any, rounds: int) -> Adapted:
        """Return the model that each party uses after this many rounds."""
        adaptation = algorithm.after_training(rounds)
        algorithm = at_round(algorithm, max(rounds - 1, 0))
        if algorithm.is_stateless():  # The state may have the rows of a cohort only.
            w = algorithm.w_global(state)
            models = jnp.broadcast_to(w, (self._plan.parties, w.size))
        else:
            models = algorithm.models(state)
        if not is_adapted(algorithm):
            return Adapted(models, None)
        key = jax.random.fold_in(jax.random.key(0), rounds)
        plan = self._plan
        adapted: Adapted = adapt_models(
            plan.model,
            plan.batch_size,
            plan.each,
            self._data,
            self._w_first,
            adaptation,
            models,
            key,
        )
        return adapted


def is_adapted(algorithm: AbstractAlgorithm[Any]) -> bool:
    """Return True if parties adapt their models to their own samples before they use them."""
    return isinstance(algorithm, AbstractLocalAdaptation) and algorithm.adaptation_steps > 0


@partial(jax.jit, static_argnames=("model", "batch_size", "each"))
def adapt_models(
    model: Model, batch_size: int, each: str, data: Data, w_first: Vector,
    algorithm: AbstractLocalAdaptation, models: Matrix, key: Array,
) -> Adapted:  # fmt: skip
    """Return the adapted models. Steps that diverge are repeated with smaller ones."""
    words = jax.random.bits(key, data.size.shape)
    steps = algorithm.adaptation_steps
    batches = minibatches(words, data.start, data.size, batch_size, max_steps=steps)
    everyone: Any = np.arange(len(data.size))
    work = Work(everyone, batches, steps, judge=make_divergence_test(model, data, w_first))
    grad = make_gradient(model, data)

    def adapt(scale: Any, w: Vector, batches: Any, steps: int) -> tuple[Vector, Array]:
        adapted = algorithm.adapt(w, batches, grad, lambda function: function, scale)
        return work.accept(adapted, w, batches)

    return Adapted(*work.map(EACH_BY_NAME[each], adapt, models))
