"""Checks Optax optimizers: whether they have a learning-rate schedule, and their first updates.

An optimizer with a schedule is rejected where it would restart in every round.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import optax

from fedplus.check import SettingError

SHOWN_STEPS = 4
"""The number of steps whose updates stand for an optimizer."""
STEPS = (1, 10, 100, 1000, 10_000, 100_000)
"""Values of a step count at which an update is compared with the first update."""


def require_no_schedule(optimizer: optax.GradientTransformation, name: str) -> None:
    """Require that an optimizer has no learning-rate schedule."""
    with jax.ensure_compile_time_eval():
        w = jnp.ones(2)
        try:
            state = optimizer.init(w)
        except Exception:  # The optimizer needs parameters with certain names.
            return  # LocalSolve checks its state on the model.
        if has_schedule(state) or _depends_on_counters(optimizer, state, w):
            raise SettingError(_message(name))


def require_no_schedule_state(state: Any, name: str) -> None:
    """Require that an optimizer's state does not contain the state of a schedule."""
    if has_schedule(state):
        raise SettingError(_message(name))


def optimizers_of(settings: Any) -> Iterator[optax.GradientTransformation]:
    """Yield the Optax optimizers among the settings of a method; those with a name are left out.

    A setting named "optimizer" that is a function makes one from a learning rate.
    """
    if not dataclasses.is_dataclass(settings):
        return
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, optax.GradientTransformation):
            yield value
        elif field.name == "optimizer" and callable(value):
            yield value(1.0)
        else:
            yield from optimizers_of(value)


def show_updates(optimizer: optax.GradientTransformation) -> str:
    """Return an optimizer's first updates for fixed gradients, which depend on its settings.

    >>> show_updates(optax.sgd(0.1))
    'updates -0.1, 0.2; -0.2, 0.4; -0.3, 0.6; -0.4, 0.8'
    """
    updates = []
    with jax.ensure_compile_time_eval():
        w = jnp.ones(2)
        try:
            state = optimizer.init(w)
        except Exception:  # The optimizer needs parameters with certain names.
            return "updates unknown"
        for step in range(1, SHOWN_STEPS + 1):
            update, state = optimizer.update(jnp.array([1.0, -2.0]) * step, state, w)
            updates.append(", ".join(f"{number:.5g}" for number in update.tolist()))
            w = optax.apply_updates(w, update)
    return f"updates {'; '.join(updates)}"


def _message(name: str) -> str:
    return (
        f"{name} must be an optimizer with a constant learning rate, got one with a schedule. It would "
        "restart in every round, because each party initialises its optimizer in every round. Give the "
        "schedule as eta, where it counts rounds, or set keep_optimizer_state (LocalSolve)."
    )


def has_schedule(state: Any) -> bool:
    """Return True if an Optax state contains the state of a schedule."""
    return any(_is_schedule(node) for node in _nodes(state))


def _is_schedule(node: Any) -> bool:
    name = type(node).__name__
    has_schedule_name = "Schedule" in name and not name.startswith("ScheduleFree")
    return has_schedule_name or "Plateau" in name or bool(getattr(node, "hyperparams_states", None))


def _depends_on_counters(optimizer: optax.GradientTransformation, state: Any, w: Any) -> bool:
    """Return True if the value of a step count changes the update.

    Step counts next to moments are ignored: they correct a bias (Adam) and may restart every round.
    """
    leaves, tree = jax.tree.flatten(state)
    counters = {id(leaf) for leaf in _counters(state)}
    if not counters:
        return False
    grads = jnp.array([1.0, -2.0])

    def update(step: int) -> Any:
        at_step = [jnp.full_like(x, step) if id(x) in counters else x for x in leaves]
        return optimizer.update(grads, jax.tree.unflatten(tree, at_step), w)[0]

    first = update(0)
    return not all(bool(jnp.allclose(update(step), first, rtol=1e-6)) for step in STEPS)


def _counters(state: Any) -> Iterator[Any]:
    """Yield the integer leaves of a state, without those in Optax's own states or next to moments."""
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        is_from_optax = type(state).__module__.split(".")[0] == "optax"
        direct = [leaf for leaf in state if hasattr(leaf, "dtype")]
        if is_from_optax or any(_is_float(leaf) for leaf in jax.tree.leaves(state)):
            state = [child for child in state if not any(child is leaf for leaf in direct)]
    if hasattr(state, "dtype"):
        if jnp.issubdtype(state.dtype, jnp.integer):
            yield state
        return
    for child in _children(state):
        yield from _counters(child)


def _nodes(state: Any) -> Iterator[Any]:
    yield state
    for child in _children(state):
        yield from _nodes(child)


def _children(state: Any) -> list[Any]:
    if isinstance(state, dict):
        return list(state.values())
    return list(state) if isinstance(state, (tuple, list)) else []


def _is_float(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and bool(jnp.issubdtype(leaf.dtype, jnp.floating))
