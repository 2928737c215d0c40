"""``Model``: a function to initialise parameters, a function to apply them, and a task."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedplus._types import Array
from fedplus.models.task import CLASSIFICATION, Task

Params = Any
"""A pytree of arrays."""


class Model(NamedTuple):
    """A model as a pair of functions of a pytree of parameters.

    Args:
        init: ``init(key) -> params``, the initial parameters.
        apply: ``apply(params, x) -> outputs`` for a batch of inputs: (B, ...) to (B, ...).
        task: Loss and score of the outputs: ``CLASSIFICATION``, ``BINARY``, ``REGRESSION`` or your own.
        name: Name for reports.

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
