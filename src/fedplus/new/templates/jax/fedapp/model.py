"""The model, a party's steps, and how a model is judged: JAX, Equinox and Optax."""

from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import optax
from fedplus.flower import Party
from fedplus.jax import Pull, arrays, put_arrays

from fedapp.data import CLASSES, FEATURES
from fedapp.method import ETA

BATCH = 20
OPTIMIZER = Pull(optax.sgd(ETA))


def network() -> eqx.Module:
    """Any Equinox module, or any other pytree. Its floating-point arrays are federated."""
    return eqx.nn.MLP(FEATURES, CLASSES, width_size=32, depth=1, key=jax.random.key(0))


def first() -> dict[str, Any]:
    """The model that the federation begins with."""
    return arrays(network())


def loss_of(model: Any, x: Any, y: Any) -> Any:
    """Mean cross-entropy."""
    logits = jax.vmap(model)(x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@eqx.filter_jit
def step(model: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """A step of the optimizer, and the pull of Fed+ with it. It is compiled once for all rounds."""
    grads = eqx.filter_grad(loss_of)(model, x, y)
    updates, state = OPTIMIZER.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), state


def trained(party: Party, x: Any, y: Any, work: Iterable[int], rng: Any) -> tuple[Any, Any]:
    """The party's steps: its new model, and what else it keeps."""
    model = put_arrays(network(), party.start)
    state = OPTIMIZER.init(eqx.filter(model, eqx.is_inexact_array), party)
    for _ in work:
        rows = rng.choice(len(y), BATCH)
        model, state = step(model, state, x[rows], y[rows])
    return arrays(model), {}


def judged(w: Any, kept: Any, x: Any, y: Any) -> tuple[float, float]:
    """Accuracy and loss."""
    model = put_arrays(network(), w)
    right = jax.vmap(model)(x).argmax(1) == y
    return float(right.mean()), float(loss_of(model, x, y))
