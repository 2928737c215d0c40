"""Rejection of learning-rate schedules in Optax optimizers: they cannot persist over rounds yet."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import optax

from fedplus.check import SettingError

STEPS = (1, 10, 100, 1000, 10_000, 100_000)
"""Values of a counter at which an update is compared with that of a new optimizer."""


def require_no_schedule(optimizer: optax.GradientTransformation, name: str) -> None:
    """Require that an optimizer has no learning-rate schedule.

    Raises:
        SettingError: It has one.
    """
    with jax.ensure_compile_time_eval():
        w = jnp.ones(2)
        try:
            state = optimizer.init(w)
        except (
            Exception
        ):  # It wants parameters of certain names; LocalSolve checks it on the model.
            return
        if has_schedule(state) or _depends_on_counters(optimizer, state, w):
            raise SettingError(_message(name))


def require_no_schedule_state(state: Any, name: str) -> None:
    """Require that an optimizer's state is not that of a schedule."""
    if has_schedule(state):
        raise SettingError(_message(name))


def _message(name: str) -> str:
    return (
        f"{name} must be an optimizer with a constant learning rate, got one with a schedule. It would "
        "restart in every round, because parties begin their optimizers afresh. Give a number in its "
        "place, and train in stages with lower ones."
    )


def has_schedule(state: Any) -> bool:
    """Whether a state of Optax's has a step count of a schedule in it."""
    return any(_is_schedule(node) for node in _nodes(state))


def _is_schedule(node: Any) -> bool:
    name = type(node).__name__
    of_schedule = "Schedule" in name and not name.startswith("ScheduleFree")
    return of_schedule or "Plateau" in name or bool(getattr(node, "hyperparams_states", None))


def _depends_on_counters(optimizer: optax.GradientTransformation, state: Any, w: Any) -> bool:
    """Whether another value of a bare step count changes the update.

    A count beside moments corrects their bias (Adam): that one may begin anew in every round.
    """
    leaves, tree = jax.tree.flatten(state)
    counters = {id(leaf) for leaf in _counters(state)}
    if not counters:
        return False
    grads = jnp.array([1.0, -2.0])

    def update(step: int) -> Any:
        moved = [jnp.full_like(x, step) if id(x) in counters else x for x in leaves]
        return optimizer.update(grads, jax.tree.unflatten(tree, moved), w)[0]

    first = update(0)
    return not all(bool(jnp.allclose(update(step), first, rtol=1e-6)) for step in STEPS)


def _counters(state: Any) -> Iterator[Any]:
    """The integer leaves of a state that are not Optax's own and have no moments beside them."""
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        is_known = type(state).__module__.split(".")[0] == "optax"
        direct = [leaf for leaf in state if hasattr(leaf, "dtype")]
        if is_known or any(_is_float(leaf) for leaf in jax.tree.leaves(state)):
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
