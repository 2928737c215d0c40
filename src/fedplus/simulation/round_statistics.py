"""The statistics that are recorded of every round."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fedplus._types import Array, Vector
from fedplus.algorithm import AbstractAlgorithm, Outcome
from fedplus.work import Each


class RoundStatistics(NamedTuple):
    """The statistics of one round; ``Run.figures`` has those of all rounds, (T, ...)."""

    cohort: Array
    """(K,): S^t."""
    steps: Array
    """(K,): E_k."""
    diverged: Array
    """(K,): how often a party's local steps diverged. They were repeated with smaller steps; after
    ``work.RETRIES`` + 1 times, the party kept its model."""
    dropped: Array
    """Number of models that did not reach the aggregate."""
    change_mean: Array
    """(K,): mean over the parameters of the change that the aggregation makes to a party's model."""
    change_std: Array
    """(K,): its standard deviation over the parameters (the paper's Figure 1)."""
    v_norm: Array
    """(K,): ‖v_k‖."""
    iterations: Array
    """Iterations of the aggregation."""
    residual: Array
    """Residual of the aggregation."""
    converged: Array
    """True if the aggregation converged."""


def round_statistics(
    algorithm: AbstractAlgorithm[Any], state: Any, rows: Array, outcome: Outcome, cohort: Array,
    steps: Array, each: Each,
) -> RoundStatistics:  # fmt: skip
    """Return the statistics of a round.

    Args:
        algorithm: The method.
        state: The state after the round.
        rows: (K,), the rows of the state that hold the cohort's models.
        outcome: The result of the round.
        cohort: (K,), S^t.
        steps: (K,) or one number, E_k.
        each: Maps a function over the cohort, in parallel or sequentially.
    """
    d = outcome.solved.shape[1]
    ones = jnp.ones(d, outcome.solved.dtype)  # Products: XLA's own sums are slow on a CPU.

    def party_statistics(row: Array, solved: Vector) -> tuple[Array, Array, Array]:
        change = algorithm.models(state, row[None])[0] - solved
        v = algorithm.personal_parts(state, row[None])[0]
        return change @ ones / d, change @ change / d, v @ v

    mean, mean_square, v_square = each(party_statistics)(rows, outcome.solved)
    return RoundStatistics(
        cohort=cohort,
        steps=jnp.broadcast_to(steps, cohort.shape),
        diverged=outcome.diverged,
        dropped=outcome.dropped,
        change_mean=mean,
        change_std=jnp.sqrt(jnp.maximum(mean_square - jnp.square(mean), 0)),
        v_norm=jnp.sqrt(v_square),
        iterations=outcome.aggregate.iterations,
        residual=outcome.aggregate.residual,
        converged=outcome.aggregate.converged,
    )
