"""The models that the server receives and aggregates; some may be missing or not finite."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation import AbstractAggregator, Aggregate
from fedplus.work import Work


class Uploads(NamedTuple):
    """The models that the server aggregates, one row per party."""

    models: Matrix
    """One finite row per party, also for a party whose model is missing."""
    weights: Vector | None = None
    """The parties' weights, 0 for a model that is missing or not finite. None: all are equal."""

    @classmethod
    def of_all(cls, work: Work, w_local: Matrix, w_global: Vector) -> "Uploads":
        """Return the models of all N parties; inactive and absent ones count with their last model."""
        return cls._of(work, w_local, jnp.arange(len(w_local)), None, w_global)

    @classmethod
    def of_cohort(cls, work: Work, solved: Matrix, w_global: Vector) -> "Uploads":
        """Return the models of the K active parties; absent ones do not count."""
        return cls._of(work, solved, work.cohort, work.present, w_global)

    @classmethod
    def _of(
        cls, work: Work, models: Matrix, parties: Array, present: Array | None, w_global: Vector
    ) -> "Uploads":
        weights = None if work.weights is None else work.weights[parties]
        if work.transmit is None and present is None:
            return cls(models, weights)
        arrived = jnp.ones(len(models), bool) if present is None else present
        if work.transmit is not None:
            models = work.transmit(models, parties)
            arrived &= jnp.isfinite(models).all(axis=1)
            models = jnp.where(arrived[:, None], models, w_global)
        return cls(models, arrived.astype(models.dtype) * (1 if weights is None else weights))

    @property
    def dropped(self) -> Array:
        """The number of models that do not count."""
        return jnp.array(0) if self.weights is None else jnp.sum(self.weights == 0)

    def aggregate(
        self,
        aggregator: AbstractAggregator,
        w_global: Vector,
        memory: Any = (),
        changed: Any = None,
    ) -> tuple[Aggregate, Any]:
        """Aggregate the models.

        Args:
            aggregator: The aggregation rule.
            w_global: (d,), the previous w̃; it stays the same if no model arrived.
            memory: The aggregator's memory from the previous round.
            changed: The rows that have changed since then.

        Returns:
            The aggregate, and the aggregator's memory for the next round.
        """
        models, weights = self
        if weights is None:
            return aggregator.update(models, None, w_global, memory, changed)
        any_arrived = weights.any()
        # The heaviest model replaces those that do not count, so that aggregators need not check.
        models = jnp.where(weights[:, None] > 0, models, models[jnp.argmax(weights)])
        weights = jnp.where(any_arrived, weights, 1)
        result, memory = aggregator.update(models, weights, w_global, memory, changed)
        return result._replace(w=jnp.where(any_arrived, result.w, w_global)), memory
