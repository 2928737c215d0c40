"""Code that is written once and computes with NumPy or with JAX, whichever its arrays are.

This module does not import JAX: a Flower party, which is a new process for every message, does
without it and so starts a second earlier.
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
    arrays: Any, go_on: Callable[[Any], Any], body: Callable[[Any], Any], state: Any
) -> Any:
    """``jax.lax.while_loop``, or a plain loop if ``arrays`` are NumPy's."""
    if not isinstance(arrays, np.ndarray):
        from jax import lax

        return lax.while_loop(go_on, body, state)
    while go_on(state):
        state = body(state)
    return state


def cond(
    arrays: Any,
    yes: Any,
    if_true: Callable[[], Any],
    if_false: Callable[[], Any],
    both: bool = False,
) -> Any:
    """``jax.lax.cond``, or a plain condition if ``arrays`` are NumPy's.

    ``both``: JAX computes both vectors and selects one, where a conditional would cost more than that.
    """
    if isinstance(arrays, np.ndarray):
        return if_true() if yes else if_false()
    from jax import lax
    from jax import numpy as jnp

    return jnp.where(yes, if_true(), if_false()) if both else lax.cond(yes, if_true, if_false)


def row(matrix: Any, k: Any) -> Any:
    """Return row k, which XLA copies at once; indexing would look up entry by entry."""
    if isinstance(matrix, np.ndarray):
        return matrix[k]
    from jax import lax

    return lax.dynamic_index_in_dim(matrix, k, keepdims=False)
