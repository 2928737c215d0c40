"""The coordinatewise median and the δ-coordinatewise median."""

from typing import Any, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._backend import namespace
from fedplus._spmd import shard_of
from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, ChangedRows, exact_aggregate
from fedplus.check import is_concrete, require_number

MANY_MODELS = 200
"""From so many models on, a memory of each coordinate saves time."""


@final
@settings
class CoordinateMedian(AbstractAggregator):
    r"""The exact coordinatewise median (Yin et al., 2018) and, for δ > 0, the δ-coordinatewise median.

    .. math:: \operatorname{argmin}_w \tfrac1N \sum_k \|w_k - w\|_1

    For δ > 0 it minimises the Moreau envelope of ψ = L1(δ) instead (FedCoMed+), which is a root of
    Σ_k clip(w_k − w, −δ, δ) in each coordinate. An interval may minimise (an even number of parties, or
    weights that split in halves). Then the median is its midpoint, as in NumPy, and the δ-median its
    point nearest to the mean, where the paper's recursion stops. With fewer than half of the weight
    arbitrarily far away the result stays within the range of the rest, or δ outside of it.

    Args:
        delta: δ ≥ 0, in parameter units.

    Paper: eq. (CoMed); Table 1; eq. (aggregation_def) with ψ = L1(δ).
    """

    delta: float = static_field(default=0.0)
    propagates_nan = True

    def __post_init__(self) -> None:
        require_number(self.delta, "CoordinateMedian.delta", least=0)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        if self._is_plain():
            return exact_aggregate(kernels.medians(w_local, weights, start))
        return _solved(*kernels.delta_medians(w_local, weights, self.delta, start))

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        """Return the memory of ``kernels.incremental_medians``."""
        few = changed * 8 <= parties and parties >= MANY_MODELS and not self._is_plain()
        on_cpu = kernels.available() and jax.default_backend() == "cpu"
        if not (few and on_cpu and w.dtype == jnp.float32):
            return ()
        d = shard_of(w.size, parties * w.size).size
        return (jnp.full((d, kernels.MEMORY_WORDS), -1, jnp.int32),)  # Nothing is known.

    @override
    def solve_incremental(
        self, w_local: Matrix, start: Vector, memory: Any, changed: ChangedRows
    ) -> tuple[Aggregate, Any]:
        w, missed, after = kernels.incremental_medians(
            w_local, changed.rows, changed.before, self.delta, start, *memory
        )
        return _solved(w, missed), (after,)

    def _is_plain(self) -> bool:
        """Return whether δ is 0; a traced δ is not."""
        return is_concrete(self.delta) and bool(self.delta == 0)


def _solved(w: Vector, missed: Array) -> Aggregate:
    """Return the aggregate, which has converged if no coordinate was missed."""
    xp = namespace(w)
    residual = xp.where(missed == 0, 0, xp.inf).astype(w.dtype)
    return Aggregate(w, xp.asarray(1, xp.int32), residual, missed == 0)
