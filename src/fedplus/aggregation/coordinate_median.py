"""The coordinatewise median and the δ-coordinatewise median."""

from typing import Any, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._backend import namespace
from fedplus._spmd import shard_of
from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, ChangedRows, direct_aggregate
from fedplus.check import is_concrete, require_number

MIN_PARTIES = 200
"""The number of parties from which a memory of each coordinate saves time."""


@final
@settings
class CoordinateMedian(AbstractAggregator):
    r"""The exact coordinatewise median (Yin et al., 2018) and, for δ > 0, the δ-coordinatewise median.

    .. math:: \operatorname{argmin}_w \tfrac1N \sum_k \|w_k - w\|_1

    For δ > 0 it minimises the Moreau envelope of ψ = L1(δ) instead (FedCoMed+), which is a root of
    Σ_k clip(w_k − w, −δ, δ) in each coordinate. The minimisers may form an interval, e.g. for an even
    number of parties. Then the median is the midpoint, as in NumPy, and the δ-median is the point
    nearest to the mean, where the paper's recursion stops. If less than half of the weight is
    arbitrarily far away, the result stays within δ of the range of the other models.

    Args:
        delta: Threshold δ ≥ 0, in parameter units. 0: the median.

    Paper: eq. (CoMed); Table 1; eq. (aggregation_def) with ψ = L1(δ).
    """

    delta: float = static_field(default=0.0)
    propagates_nan = True

    def __post_init__(self) -> None:
        require_number(self.delta, "CoordinateMedian.delta", least=0)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        if self._is_plain():
            return direct_aggregate(kernels.medians(w_local, weights, start))
        return _certify(*kernels.delta_medians(w_local, weights, self.delta, start))

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        """Return the memory of ``kernels.incremental_medians``."""
        saves_time = changed * 8 <= parties and parties >= MIN_PARTIES and not self._is_plain()
        has_kernels = kernels.available() and jax.default_backend() == "cpu"
        if not (saves_time and has_kernels and w.dtype == jnp.float32):
            return ()
        d = shard_of(w.size, parties * w.size).size
        return (jnp.full((d, kernels.MEMORY_WORDS), -1, jnp.int32),)  # -1: an empty memory

    @override
    def solve_incremental(
        self,
        w_local: Matrix,
        counted: Array | None,
        start: Vector,
        memory: Any,
        changed: ChangedRows,
    ) -> tuple[Aggregate, Any]:
        w, unsolved, new_memory = kernels.incremental_medians(
            w_local, changed, counted, self.delta, start, *memory
        )
        return _certify(w, unsolved), (new_memory,)

    def _is_plain(self) -> bool:
        """Return True if δ is 0, and False if δ is traced."""
        return is_concrete(self.delta) and bool(self.delta == 0)


def _certify(w: Vector, unsolved: Array) -> Aggregate:
    """Return the aggregate w, which has converged if no coordinate is unsolved."""
    xp = namespace(w)
    residual = xp.where(unsolved == 0, 0, xp.inf).astype(w.dtype)
    return Aggregate(w, xp.asarray(1, xp.int32), residual, unsolved == 0)
