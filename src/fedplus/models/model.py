"""A model: how its parameters begin, what it answers to a batch of inputs, and what judges it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedplus._types import Array
from fedplus.models.task import CLASSIFICATION, Task

Params = Any
"""A pytree of arrays."""


class Model(NamedTuple):
    """Any pair of functions over a pytree of parameters.

    Args:
        init: ``init(key) -> params``.
        apply: ``apply(params, x) -> outputs`` for a batch of inputs: (B, ...) to (B, ...).
        task: What the outputs mean: ``CLASSIFICATION``, ``BINARY``, ``REGRESSION`` or one of your own.
        name: For reports.

    >>> import jax.numpy as jnp
    >>> mine = Model(
    ...     init=lambda key: {"weight": jnp.zeros((3, 2))},
    ...     apply=lambda params, x: x @ params["weight"],
    ... )
    >>> mine.task.score_name
    'accuracy'
    """

    init: Callable[[Array], Params]
    apply: Callable[[Params, Array], Array]
    task: Task = CLASSIFICATION
    name: str = "model"
