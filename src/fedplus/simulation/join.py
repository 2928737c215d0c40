"""Parties that join after the training: they train with a global model that no longer changes."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedplus._types import Array, NumpyArray, Vector
from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import require, require_integer
from fedplus.data.split import Split, put_on_device
from fedplus.models import Model
from fedplus.simulation.engine import EACH_BY_NAME, Data, make_divergence_test, make_gradient
from fedplus.simulation.evaluated_models import adapt_models, is_adapted
from fedplus.simulation.minibatches import minibatches
from fedplus.simulation.participation import Effort
from fedplus.simulation.setup import choose_each, init_model
from fedplus.work import RETRIES, Backoff, Work


class Joined(NamedTuple):
    """The models of parties that joined."""

    models: NumpyArray
    """(M, d): the model that each new party uses."""
    given_up: NumpyArray
    """(M,): in how many rounds a party's local steps diverged even with the smallest step sizes."""
    kept_unadapted: NumpyArray
    """(M,): True if the steps diverged likewise with which a party adapts its model in the end."""


class LocalTraining(NamedTuple):
    """How long new parties train."""

    steps: int
    """The number of local steps in a round."""
    rounds: int = 1
    """The number of rounds."""
    batch_size: int = 20


def join_parties(
    algorithm: AbstractAlgorithm[Any],
    state: Any,
    model: Model,
    samples: Split,
    training: LocalTraining,
    *,
    rounds_before: int,
    seed: int,
) -> Joined:
    """Train new parties, independently of each other, while the server's models stay as they are.

    A new party starts where the method lets a late party start: with ``join="current"``, and with the
    baselines, at w̃; with ``join="first"`` at the first model.

    Args:
        algorithm: The method.
        state: Its state after the training.
        model: The model.
        samples: The new parties' training samples.
        training: How long they train.
        rounds_before: The number of rounds of the training. Settings that depend on the round have the
            values of the last one, but learning rates those of the first one.
        seed: The seed of the first model and of the minibatches.

    Raises:
        SettingError: With this method no party can train without the others, or a number is invalid,
            such as a learning rate that is 0 in the first round.
    """
    name = type(algorithm).__name__
    require(
        algorithm.can_join, "join", name, "called for a method whose parties train on their own",
        f"{name} needs the models of the other parties in each step.",
    )  # fmt: skip
    for field, value in zip(training._fields, training, strict=True):
        require_integer(field, value)
    algorithm.require_learning_rate_after_training()
    algorithm = algorithm.after_training(rounds_before)
    key, w_first = init_model(model, jax.random.key(seed))
    starts_first = getattr(algorithm, "join", "current") == "first"
    first = w_first if starts_first else jnp.asarray(algorithm.w_global(state))
    data = Data(*(put_on_device(part) for part in samples))
    state = algorithm.state_of_new_parties(state, first, len(samples.size))
    effort = Effort(np.full(len(samples.size), training.steps), np.ones(len(samples.size), int))
    each = choose_each("auto", first.size, effort)
    key = jax.random.fold_in(key, rounds_before)
    state, given_up = _train(model, training, each, algorithm, state, w_first, data, key)
    models = algorithm.models(state)
    kept_unadapted = np.zeros(len(samples.size), bool)
    if is_adapted(algorithm):
        models, diverged = adapt_models(
            model, training.batch_size, each, data, w_first, algorithm, models, key
        )
        kept_unadapted = np.asarray(diverged) > RETRIES
    return Joined(np.asarray(models), np.asarray(given_up), kept_unadapted)


@partial(jax.jit, static_argnames=("model", "training", "each_name"))
def _train(
    model: Model, training: LocalTraining, each_name: str, algorithm: AbstractAlgorithm[Any],
    state: Any, w_first: Vector, data: Data, key: Array,
) -> tuple[Any, Array]:  # fmt: skip
    """Return the state after all rounds, and how often each party's steps were given up."""
    parties = len(data.size)
    fields = state._asdict().items()
    server = {name: value for name, value in fields if name not in algorithm.per_party}
    gradient = make_gradient(model, data)
    judge = make_divergence_test(model, data, w_first)

    def one_round(t: Array, carry: tuple[Any, Backoff, Array]) -> tuple[Any, Backoff, Array]:
        state, backoff, given_up = carry
        key_of_round = jax.random.fold_in(key, t)
        batches = minibatches(
            jax.random.bits(key_of_round, (parties,)), data.start, data.size, training.batch_size,
            training.steps * algorithm.batches_per_step, as_array=each_name == "vmap",
        )  # fmt: skip
        everyone: Any = np.arange(parties)
        work = Work(
            everyone, batches, training.steps, key=jax.random.fold_in(key_of_round, 1),
            judge=judge, backoff=backoff,
        )  # fmt: skip
        state, outcome = algorithm.round(state, work, gradient, EACH_BY_NAME[each_name])
        backoff = backoff.after_round(outcome.diverged)
        return state._replace(**server), backoff, given_up + (outcome.diverged > RETRIES)

    first = state, Backoff.none(parties), jnp.zeros(parties, jnp.int32)
    state, _, given_up = lax.fori_loop(0, training.rounds, one_round, first)
    return state, given_up
