"""The model, a party's training steps, and the evaluation, with JAX, Equinox and Optax."""

from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import optax
from fedplus.flower import Party
from fedplus.jax import Pull, arrays, put_arrays

from fedapp.data import CLASSES, FEATURES

BATCH = 20
OPTIMIZER = Pull(optax.sgd)
"""Its learning rate is the method's η."""


def make_network() -> eqx.Module:
    """Return an Equinox module or any other pytree. Its floating-point arrays are federated."""
    return eqx.nn.MLP(FEATURES, CLASSES, width_size=32, depth=1, key=jax.random.key(0))


def initial_model() -> dict[str, Any]:
    """Return the model with which the federation starts."""
    return arrays(make_network())


def mean_loss(model: Any, x: Any, y: Any) -> Any:
    """Return the mean cross-entropy."""
    logits = jax.vmap(model)(x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@eqx.filter_jit
def step(model: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Do a step of the optimizer with the pull of Fed+. It is compiled once for all rounds."""
    grads = eqx.filter_grad(mean_loss)(model, x, y)
    updates, state = OPTIMIZER.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), state


def train_model(party: Party, x: Any, y: Any, steps: Iterable[int], rng: Any) -> tuple[Any, Any]:
    """Do the party's steps; return its new model, and extra arrays that stay with the party."""
    model = put_arrays(make_network(), party.start)
    state = OPTIMIZER.init(eqx.filter(model, eqx.is_inexact_array), party)
    for _ in steps:
        rows = rng.choice(len(y), BATCH)
        model, state = step(model, state, x[rows], y[rows])
    return arrays(model), {}


def evaluate(w: Any, extra: Any, x: Any, y: Any) -> tuple[float, float]:
    """Return the accuracy and the loss of a model."""
    model = put_arrays(make_network(), w)
    is_correct = jax.vmap(model)(x).argmax(1) == y
    return float(is_correct.mean()), float(mean_loss(model, x, y))
