"""What is recorded of every round."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fedplus._types import Array
from fedplus.algorithm import AbstractAlgorithm, Outcome


class RoundFigures(NamedTuple):
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


def figures_of(
    algorithm: AbstractAlgorithm[Any], state: Any, rows: Array, outcome: Outcome, cohort: Array,
    steps: Array,
) -> RoundFigures:  # fmt: skip
    """The figures of a round that ended in ``state``, where the cohort's models are these ``rows``."""
    change = algorithm.models(state, rows) - outcome.solved
    d = change.shape[1]
    ones = jnp.ones(d, change.dtype)  # A product with ones: XLA's own sums are slow on a CPU.
    mean = change @ ones / d
    return RoundFigures(
        cohort=cohort,
        steps=jnp.broadcast_to(steps, cohort.shape),
        diverged=outcome.diverged,
        dropped=outcome.dropped,
        change_mean=mean,
        change_std=jnp.sqrt(jnp.maximum(jnp.square(change) @ ones / d - jnp.square(mean), 0)),
        v_norm=jnp.sqrt(jnp.square(algorithm.personal(state, rows)) @ ones),
        iterations=outcome.aggregate.iterations,
        residual=outcome.aggregate.residual,
        converged=outcome.aggregate.converged,
    )
