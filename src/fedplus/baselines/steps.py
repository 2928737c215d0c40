"""Functions that the baselines share: local steps, arithmetic on pytrees, aggregation and checks."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from fedplus._optimizer_check import require_no_schedule
from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation import AbstractAggregator, Aggregate, Mean
from fedplus.check import require
from fedplus.local import (
    Batch,
    Grad,
    ParameterGradient,
    Params,
    available_steps,
    batch_at,
    make_optimizer,
    repeat_steps,
    with_parameter_shapes,
)
from fedplus.uploads import Uploads
from fedplus.work import Work

Direction = Callable[[Params, Params], Params]
"""(w, ∇f_k(w)) ↦ the gradient that a method uses instead of ∇f_k(w)."""
Optimizer = str | Callable[[float], optax.GradientTransformation]
"""A local optimizer, as in ``LocalSolve.optimizer``. Its state is new in every round."""


def descend(
    w: Vector,
    batches: Batch,
    steps: Array | int,
    grad: Grad,
    eta: Any,
    optimizer: Optimizer = "sgd",
    direction: Direction | None = None,
) -> Vector:
    """Return w after ``steps`` steps of the optimizer with the learning rate ``eta``.

    Args:
        w: (d,), the first model.
        batches: One minibatch per step.
        steps: E_k.
        grad: (w, batch) ↦ ∇f_k(w) on that batch.
        eta: The learning rate.
        optimizer: What computes a step from a gradient.
        direction: (w, ∇f_k(w)) ↦ the gradient for the optimizer. None: ∇f_k(w) itself.
    """
    gradient, unravel, ravel = with_parameter_shapes(grad)
    transformation = make_optimizer(optimizer)

    def step(i: Array, carry: tuple[Params, Any]) -> tuple[Params, Any]:
        w, state = carry
        g = gradient(w, batch_at(batches, i))
        g = g if direction is None else direction(w, g)
        return optimizer_step(transformation, eta, w, g, state)

    first = unravel(w)
    carry = first, transformation.init(first)
    return ravel(repeat_steps(step, steps, carry, available_steps(batches))[0])


def optimizer_step(
    optimizer: optax.GradientTransformation, eta: Any, w: Params, gradient: Params, state: Any
) -> tuple[Params, Any]:
    """Return w and the optimizer's state after a step with the learning rate ``eta``."""
    update, state = optimizer.update(gradient, state, w)
    return add_scaled(w, eta, update), state


def add_scaled(w: Params, scale: Any, other: Params) -> Params:
    """Return w + scale · other, for pytrees."""
    return jax.tree.map(lambda a, b: a + scale * b, w, other)


def subtract(w: Params, other: Params) -> Params:
    """Return w − other, for pytrees."""
    return add_scaled(w, -1.0, other)


def mean_over_batches(function: Callable[[Any], Any], batches: Batch, steps: Array | int) -> Any:
    """Return the mean of ``function(batch)`` over a party's minibatches of this round."""
    shapes = jax.eval_shape(lambda: function(batch_at(batches, jnp.int32(0))))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    count = jnp.maximum(jnp.asarray(steps), 1)

    def add(i: Array, total: Any) -> Any:
        return add_scaled(total, 1.0, function(batch_at(batches, i)))

    total = repeat_steps(add, steps, zero, available_steps(batches))
    return jax.tree.map(lambda leaf: leaf / count.astype(leaf.dtype), total)


def aggregate_active(
    work: Work, models: Matrix, w_global: Vector, aggregate: AbstractAggregator | None
) -> tuple[Aggregate, Array]:
    """Return the aggregate of the active parties' models, and the number of models left out."""
    uploads = Uploads.of_cohort(work, models, w_global)
    result, _ = uploads.aggregate(aggregate or Mean(), w_global)
    return result, uploads.dropped


def mean_loss(grad: Grad, method: str) -> Callable[[Vector, Batch], Array]:
    """Return the function (w, batch) ↦ f_k(w), for a method that compares models by their loss."""
    parameter_loss = grad.loss if isinstance(grad, ParameterGradient) else None
    require(
        parameter_loss is not None,
        f"grad of {method}",
        "a gradient without a loss",
        "a ParameterGradient with a loss",
        f"{method} compares models by their loss. fedplus.simulate provides it.",
    )
    _, unravel, _ = with_parameter_shapes(grad)

    def loss(w: Vector, batch: Batch) -> Array:
        assert parameter_loss is not None
        return parameter_loss(unravel(w), batch)

    return loss


def require_aggregator(aggregate: object, name: str) -> None:
    """Require an aggregator or None."""
    ok = aggregate is None or isinstance(aggregate, AbstractAggregator)
    require(ok, f"{name}.aggregate", repr(aggregate), "an aggregator or None", "E.g. Mean().")


def require_optimizer(optimizer: Optimizer, name: str) -> None:
    """Require an optimizer with a constant learning rate."""
    transformation = make_optimizer(optimizer, f"{name}.optimizer")
    if not isinstance(optimizer, str):
        require_no_schedule(transformation, f"{name}.optimizer")


def broadcast_model(w: Vector, parties: int, chosen: Array | None) -> Matrix:
    """Return the model w once per row, for all parties or for those chosen."""
    return jnp.tile(w, (parties if chosen is None else len(chosen), 1))
