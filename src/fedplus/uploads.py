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
    counted: Array | None = None
    """(N,): True for parties that have joined; the others do not count. None: all have."""
    missing: Array | None = None
    """True for each model that is missing or not finite. None: there are none."""

    @classmethod
    def of_all(
        cls, work: Work, w_local: Matrix, w_global: Vector, counted: Array | None = None
    ) -> "Uploads":
        """Return the models of all N parties; inactive and absent ones count with their last model.

        Args:
            work: The work of the round.
            w_local: (N, d), the parties' models.
            w_global: (d,), which stands in for a model that is not finite.
            counted: (N,), True for parties that have joined. None: all have.
        """
        uploads = cls._of(work, w_local, jnp.arange(len(w_local)), None, w_global)
        return uploads._replace(counted=counted)

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
        present_weights = arrived.astype(models.dtype) * (1 if weights is None else weights)
        return cls(models, present_weights, missing=~arrived)

    @property
    def dropped(self) -> Array:
        """The number of models that are missing or not finite, of the parties that have joined."""
        if self.missing is None:
            return jnp.array(0)
        return jnp.sum(self.missing if self.counted is None else self.missing & self.counted)

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
        models, weights, counted, _ = self
        if weights is None and (counted is None or memory != ()):
            result, memory = aggregator.update(models, None, w_global, memory, changed, counted)
            if counted is not None:
                result = result._replace(w=jnp.where(counted.any(), result.w, w_global))
            return result, memory
        if counted is not None:
            weights = jnp.where(counted, 1 if weights is None else weights, 0).astype(models.dtype)
        assert weights is not None
        any_arrived = weights.any()
        # The heaviest model replaces those that do not count, so that aggregators need not check.
        models = jnp.where(weights[:, None] > 0, models, models[jnp.argmax(weights)])
        weights = jnp.where(any_arrived, weights, 1)
        result, memory = aggregator.update(models, weights, w_global, memory, changed)
        return result._replace(w=jnp.where(any_arrived, result.w, w_global)), memory
