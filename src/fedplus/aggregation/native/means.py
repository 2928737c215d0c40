"""The mean as one loop, and whether it is finite."""

from fedplus.aggregation.native.finite import are_finite
from fedplus.aggregation.native.loop import Floats, loop
from fedplus.aggregation.native.rows import put_sum, put_sum_in_threads


@loop
def mean(w_local: Floats, weights: Floats, column: int, total: Floats) -> bool:
    """Put Σ a_k w_k / Σ a_k into ``total``, in as many columns as it has; whether it is finite."""
    put_sum(w_local, weights / weights.sum(), column, total)
    return are_finite(total)


@loop
def mean_in_threads(
    w_local: Floats, weights: Floats, column: int, threads: int, total: Floats
) -> bool:
    """The same."""
    put_sum_in_threads(w_local, weights / weights.sum(), column, threads, total)
    return are_finite(total)
