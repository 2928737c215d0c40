"""What is recorded of every round."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fedplus._types import Array, Vector
from fedplus.algorithm import AbstractAlgorithm, Outcome
from fedplus.work import Each


class RoundStatistics(NamedTuple):
    """What is recorded of every round."""

    cohort: Array
    """(K,): S^t."""
    steps: Array
    """(K,): E_k."""
    diverged: Array
    """(K,): whose steps ended in NaN or Inf."""
    dropped: Array
    """How many models did not reach the aggregate."""
    change_mean: Array
    """(K,): mean over the parameters of the change that the aggregation makes to a party's model."""
    change_std: Array
    """(K,): its standard deviation over the parameters (the paper's Figure 1)."""
    v_norm: Array
    """(K,): ‖v_k‖."""
    iterations: Array
    residual: Array
    converged: Array


def round_statistics(
    algorithm: AbstractAlgorithm[Any], state: Any, rows: Array, outcome: Outcome, cohort: Array,
    steps: Array, each: Each,
) -> RoundStatistics:  # fmt: skip
    """The figures of a round that ended in ``state``, where the cohort's models are these ``rows``.

    ``each``: of all of them at once, or one after the other.
    """
    d = outcome.solved.shape[1]
    ones = jnp.ones(d, outcome.solved.dtype)  # Products: XLA's own sums are slow on a CPU.

    def first_replica(row: Array, solved: Vector) -> tuple[Array, Array, Array]:
        change = algorithm.models(state, row[None])[0] - solved
        v = algorithm.personal_parts(state, row[None])[0]
        return change @ ones / d, change @ change / d, v @ v

    mean, square, size = each(first_replica)(rows, outcome.solved)
    return RoundStatistics(
        cohort=cohort,
        steps=jnp.broadcast_to(steps, cohort.shape),
        diverged=outcome.diverged,
        dropped=outcome.dropped,
        change_mean=mean,
        change_std=jnp.sqrt(jnp.maximum(square - jnp.square(mean), 0)),
        v_norm=jnp.sqrt(size),
        iterations=outcome.aggregate.iterations,
        residual=outcome.aggregate.residual,
        converged=outcome.aggregate.converged,
    )
