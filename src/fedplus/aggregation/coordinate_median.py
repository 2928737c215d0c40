"""The coordinatewise median and the δ-coordinatewise median."""

from typing import Any, NamedTuple, final

import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, namespace, settings
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, Changed, exact
from fedplus.aggregation.cores import share_of

MANY_MODELS = 4 * kernels.LISTED
"""From so many models on, a memory of each coordinate saves time."""


@final
@settings
class CoordinateMedian(AbstractAggregator):
    r"""The exact coordinatewise median (Yin et al., 2018).

    .. math:: \operatorname{argmin}_w \tfrac1N \sum_k \|w_k - w\|_1

    Where an interval minimises (an even number of parties, or weights that split in halves), it is the
    midpoint, as in NumPy. With fewer than half of the weight arbitrarily far away the result stays
    within the range of the rest.

    Paper: eq. (CoMed); Table 1.
    """

    shows_non_finite = True

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        return exact(kernels.medians(w_local, weights, start))


class ColumnMemory(NamedTuple):
    """What is remembered of each coordinate, so that its δ-median follows from the models that changed.

    While a median stays within an interval, most models only count: as above it, below it, or
    within δ of all of it. The others are listed. ``csrc/kernels.cc`` says how this is used.
    """

    interval: Matrix
    """(2, d)."""
    counts: Matrix
    """(4, d): models above, below, within δ, and listed; the last is −1 if nothing is known."""
    sums: Matrix
    """(2, 2 d): numbers of 64 bits, each in two words of 32."""
    values: Matrix
    """(d, LISTED): the lists."""


@final
@settings
class DeltaCoordinateMedian(AbstractAggregator):
    """The minimiser of the Moreau envelope of ψ = L1(δ): an exact root in each coordinate."""

    delta: float
    shows_non_finite = True

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        return _solved(*kernels.delta_medians(w_local, weights, self.delta, start))

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        few = changed * 8 <= parties and parties >= MANY_MODELS
        if not (few and kernels.available() and w.dtype == jnp.float32):
            return ()
        d = share_of(w.size, parties * w.size).size
        return ColumnMemory(
            jnp.zeros((2, d), w.dtype), jnp.full((4, d), -1, jnp.int32),
            jnp.zeros((2, 2 * d), jnp.int32), jnp.zeros((d, kernels.LISTED), w.dtype),
        )  # fmt: skip

    @override
    def follow(
        self, w_local: Matrix, start: Vector, memory: Any, changed: Changed
    ) -> tuple[Aggregate, Any]:
        w, missed, after = kernels.incremental_medians(
            w_local, changed.rows, changed.before, self.delta, start, memory
        )
        return _solved(w, missed), ColumnMemory(*after)


def _solved(w: Vector, missed: Array) -> Aggregate:
    """Return the aggregate, which has converged if no coordinate was missed."""
    xp = namespace(w)
    residual = xp.where(missed == 0, 0, xp.inf).astype(w.dtype)
    return Aggregate(w, xp.asarray(1, xp.int32), residual, missed == 0)
