"""Functions for code that computes with NumPy or with JAX, depending on the type of its arrays.

This module does not import JAX. A Flower party is a new process for every message, and it starts a
second earlier without JAX.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def namespace(*values: Any) -> Any:
    """Return ``jax.numpy`` if any of the values is a JAX array, else ``numpy``."""
    jax = sys.modules.get("jax")  # If it is not imported, there are no JAX arrays.
    if jax is not None and any(isinstance(value, jax.Array) for value in values):
        return jax.numpy
    return np


def while_loop(
    array: Any, condition: Callable[[Any], Any], body: Callable[[Any], Any], state: Any
) -> Any:
    """Run a loop and return its last state, by ``jax.lax`` unless ``array`` is a NumPy array."""
    if not isinstance(array, np.ndarray):
        from jax import lax

        return lax.while_loop(condition, body, state)
    while condition(state):
        state = body(state)
    return state


def cond(
    array: Any,
    predicate: Any,
    if_true: Callable[[], Any],
    if_false: Callable[[], Any],
    select: bool = False,
) -> Any:
    """Return ``if_true()`` or ``if_false()``, by ``jax.lax.cond`` unless ``array`` is a NumPy array.

    With ``select``, JAX computes both and selects one, which is faster where both are cheap.
    """
    if isinstance(array, np.ndarray):
        return if_true() if predicate else if_false()
    from jax import lax
    from jax import numpy as jnp

    if select:
        return jnp.where(predicate, if_true(), if_false())
    return lax.cond(predicate, if_true, if_false)


def take_row(matrix: Any, k: Any) -> Any:
    """Return row k. In JAX, XLA copies it as a block, whereas indexing gathers single entries."""
    if isinstance(matrix, np.ndarray):
        return matrix[k]
    from jax import lax

    return lax.dynamic_index_in_dim(matrix, k, keepdims=False)
