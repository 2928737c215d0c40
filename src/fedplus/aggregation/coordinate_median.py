"""The coordinatewise median and the δ-coordinatewise median."""

from typing import Any, NamedTuple, final

import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, Changed, exact
from fedplus.aggregation.sharing import share_of

WORTH_A_MEMORY = 4
"""How many times the models that a list has room for there must be."""


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
        return exact(kernels.medians(w_local, weights))

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        return init_columns(w, parties, changed)

    @override
    def update(
        self, w_local: Matrix, weights: Vector | None, start: Vector, memory: Any, changed: Changed
    ) -> tuple[Aggregate, Any]:
        if memory == () or weights is not None:
            return self.solve(w_local, weights, start), memory
        return update_columns(w_local, 0.0, start, memory, changed)


def delta_coordinate_median(
    w_local: Matrix, weights: Vector | None, delta: Array | float, start: Vector | None
) -> Aggregate:
    """The minimiser of ψ = L1(δ)'s Moreau envelope: an exact root in each coordinate."""
    xp = kernels.namespace(w_local)
    w, missed = kernels.delta_medians(w_local, weights, delta, start)
    found = missed == 0
    residual = xp.where(found, xp.zeros((), w.dtype), xp.asarray(xp.inf, w.dtype))
    return Aggregate(w, xp.asarray(1, xp.int32), residual, found)


class ColumnMemory(NamedTuple):
    """What is remembered of each coordinate, so that its median follows from the models that changed.

    While a median stays within an interval, most models only count: as above it, below it, or, for a
    δ-median, within δ of all of it. The others are listed. ``csrc/loops.h`` says how this is used.
    """

    interval: Matrix
    """(2, d)."""
    counts: Matrix
    """(4, d): models above, below, within δ, and listed; the last is −1 if nothing is known."""
    sums: Matrix
    """(3, 2 d): numbers of 64 bits, each in two words of 32."""
    values: Matrix
    """(d, ROOM): the lists."""


def init_columns(w: Vector, parties: int, changed: int) -> ColumnMemory | tuple[()]:
    """Initial memory for ``update_columns``, or ``()`` if it does not help."""
    few = changed * 8 <= parties and parties >= WORTH_A_MEMORY * kernels.ROOM
    if not (few and kernels.available() and w.dtype == jnp.float32):
        return ()

    class Models(NamedTuple):
        size: int

    d = share_of(w.size, Models(parties * w.size)).size
    counts, sums = jnp.full((4, d), -1, jnp.int32), jnp.zeros((3, 2 * d), jnp.int32)
    return ColumnMemory(
        jnp.zeros((2, d), w.dtype), counts, sums, jnp.zeros((d, kernels.ROOM), w.dtype)
    )


def update_columns(
    w_local: Matrix, delta: Array | float, start: Vector, memory: Any, changed: Changed
) -> tuple[Aggregate, Any]:
    """The δ-coordinatewise median from the last one, and what to remember; δ = 0: the median."""
    w, read, after = kernels.incremental_medians(
        w_local, changed.rows, changed.before, jnp.asarray(delta, w_local.dtype), start, memory
    )
    done = jnp.asarray(True)
    return Aggregate(w, read, jnp.zeros((), w.dtype), done), ColumnMemory(*after)
