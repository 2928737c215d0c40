"""An aggregate that is kept up to date while parties' models come in."""

from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from fedplus._check import require, require_distinct, require_finite, require_shape
from fedplus._types import Array, Host, Matrix, Vector
from fedplus.aggregation import native
from fedplus.aggregation.base import (
    LEAST,
    AbstractAggregator,
    Aggregate,
    Change,
    of_the_kind,
)


@final
class Followed:
    """The aggregate of N parties' models, of which a few change at a time; all weights equal.

    For a server that holds all models and gets some of them anew each round. It remembers what tells
    most of the next aggregate: a mean, and a coordinatewise median of 256 parties or more, then take
    no pass over W, and a geometric median, most often, takes one over bytes, a quarter of it (one over
    W itself without Numba). The result is as exact as the aggregator's own.

    Args:
        aggregator: E.g. ``Moreau(L2(0.1))``, ``CoordinateMedian()``.
        w_local: (N, d), a model a row; copied.

    Raises:
        SettingError: As the aggregator does.

    >>> from fedplus.aggregation import CoordinateMedian
    >>> medians = Followed(CoordinateMedian(), [[1.0, 0.0], [2.0, 0.0], [900.0, 1.0]])
    >>> medians.aggregate.w.tolist()
    [2.0, 0.0]
    >>> medians.update([0, 1], [[5.0, 2.0], [7.0, 1.0]]).w.tolist()
    [7.0, 1.0]
    """

    def __init__(self, aggregator: AbstractAggregator, w_local: npt.ArrayLike) -> None:
        ok = isinstance(aggregator, AbstractAggregator)
        require(ok, "aggregator", repr(aggregator), "an aggregator", "E.g. Moreau(L2(0.1)).")
        given: Any = w_local if isinstance(w_local, np.ndarray | jax.Array) else np.asarray(w_local)
        first = aggregator(given)
        in_memory = native.in_memory(given, LEAST)
        at_hand = None if in_memory is None else _AtHand(aggregator, np.array(in_memory), first)
        by_loops = at_hand is not None and at_hand.works
        self._way: Any = at_hand if by_loops else _OnDevice(aggregator, given, first)
        self._kind = given[:0]
        self._aggregate = self._shown()

    @property
    def aggregate(self) -> Aggregate:
        """Of the models as they are; w̃ is JAX's if the first models were, else NumPy's, to be read."""
        return self._aggregate

    @property
    def w_local(self) -> Host:
        """(N, d): all parties' models, as they are."""
        return np.array(self._way.w_local)

    def update(self, rows: npt.ArrayLike, models: npt.ArrayLike) -> Aggregate:
        """Put new models in the place of these parties', and aggregate.

        Args:
            rows: (K,): which parties', each at most once.
            models: (K, d): theirs from now on.

        Raises:
            SettingError: On parties or models that do not fit, or are not finite. Nothing has changed.
        """
        parties, d = self._way.w_local.shape
        which: Any = np.asarray(rows)
        given: Any = np.asarray(models)
        ok = which.ndim == 1 and (which.size == 0 or np.issubdtype(which.dtype, np.integer))
        require(ok, "rows", f"{which.dtype} of shape {which.shape}", "a vector of indices")
        require_distinct(which, "rows", parties)
        require_shape(given, "models", (which.size, d), "Give a model for each of the rows.")
        with np.errstate(over="ignore"):  # What is too large is not finite, and told next.
            given = given.astype(self._way.w_local.dtype, copy=False)
        require_finite(given, "models")
        self._way.take(which.astype(np.int32), given)
        self._aggregate = self._shown()
        return self._aggregate

    def _shown(self) -> Aggregate:
        """Where the next one begins nobody else may write."""
        found = of_the_kind(self._kind, self._way.aggregate)
        if isinstance(found.w, np.ndarray):
            found = found._replace(w=found.w.view())
            found.w.flags.writeable = False
        return found


class _AtHand:
    """In NumPy's memory, by compiled loops alone."""

    def __init__(self, aggregator: AbstractAggregator, w_local: Host, first: Aggregate) -> None:
        self.w_local, self.aggregate = w_local, first
        self._aggregator = aggregator
        self._forget()
        none = Change(np.zeros(0, np.int32), w_local[:0])
        self.works = self._memory != () and self._follow(none)

    def take(self, rows: Host, models: Host) -> None:
        change = Change(rows, self.w_local[rows])
        self.w_local[rows] = models
        if not self._follow(change):
            self.aggregate = self._aggregator(self.w_local, start=self.aggregate.w)
            self._forget()

    def _forget(self) -> None:
        with native.using(least=LEAST):
            memory = self._aggregator.memory(self.aggregate.w, len(self.w_local))
        self._memory = jax.tree.map(np.array, memory)

    def _follow(self, change: Change) -> bool:
        start = np.asarray(self.aggregate.w)
        with np.errstate(all="ignore"):  # Sums of numbers near the largest there are.
            found = self._aggregator.follow_at_hand(self.w_local, start, self._memory, change)
        if found is None:
            return False
        self.aggregate, self._memory = found
        return True


class _OnDevice:
    """On JAX's device."""

    def __init__(self, aggregator: AbstractAggregator, w_local: Any, first: Aggregate) -> None:
        self.w_local, self.aggregate = jnp.array(w_local, first.w.dtype, copy=True), first
        self._aggregator = aggregator
        with native.using(least=LEAST):
            self._memory = aggregator.memory(first.w, len(w_local))
        if self._memory != ():
            self.take(np.zeros(0, np.int32), np.zeros((0, *first.w.shape), first.w.dtype))

    def take(self, rows: Host, models: Host) -> None:
        # Rows that stay as they are fill up to a power of two, so that few sizes are compiled.
        parties, count = len(self.w_local), len(rows)
        more = min(1 << max(count - 1, 0).bit_length(), parties) - count
        idle = np.delete(np.arange(parties), rows)[:more]
        which = np.concatenate([rows, idle]).astype(np.int32)
        padded = np.concatenate([models, np.zeros((more, models.shape[1]), models.dtype)])
        change = Change(jnp.asarray(which), _rows(self.w_local, which))
        self.aggregate, self.w_local, self._memory = _taken(
            self._aggregator, self.w_local, self.aggregate.w, self._memory, change, padded, count
        )


@jax.jit
def _rows(w_local: Matrix, rows: Array) -> Matrix:
    return w_local[rows]


@partial(jax.jit, donate_argnames=("w_local", "memory"))
def _taken(
    aggregator: AbstractAggregator, w_local: Matrix, start: Vector, memory: Any, change: Change,
    models: Matrix, count: Array,
) -> tuple[Aggregate, Matrix, Any]:  # fmt: skip
    """With the first ``count`` models in their places. It does not read these: W would be copied."""
    rows, before = change
    now = jnp.where(jnp.arange(len(rows))[:, None] < count, models, before)
    w_local = w_local.at[rows].set(now, unique_indices=True)
    with native.using(least=LEAST, threads=None):
        if memory == ():
            return aggregator(w_local, start=start), w_local, memory
        found, memory = aggregator.follow(w_local, start, memory, change)
    return found, w_local, memory
