"""Aggregation by compiled loops alone, without JAX, of columns of a W in a CPU's memory.

Each function finds what the aggregator of its name does; None: W is not finite, or loops are not for
it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fedplus._types import Host
from fedplus.aggregation.base import Aggregate, Change, certified, exact
from fedplus.aggregation.native import Part, all_of
from fedplus.aggregation.neighbourhoods import Neighbourhoods
from fedplus.aggregation.pulled import Pulled
from fedplus.aggregation.sums import Sum, bounds
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero


def mean(part: Part, weights: Host | None) -> Aggregate | None:
    """``Mean``."""
    return _certified(_loops().mean(part, weights))


def coordinate_median(part: Part, weights: Host | None, start: Host | None) -> Aggregate | None:
    """``CoordinateMedian``."""
    return _certified(_loops().coordinate_median(part, weights, start))


def geometric_median(
    part: Part, weights: Host | None, least: float, start: Host | None
) -> Aggregate | None:
    """``GeometricMedian``; ``least``: a distance that stands for none."""
    if part.size == 1:
        return coordinate_median(part, weights, start)
    return _certified(_loops().delta_geometric_median(part, weights, least, start))


def minimise(
    psi: AbstractPsi, part: Part, weights: Host | None, start: Host | None
) -> Aggregate | None:
    """``Moreau(psi)``."""
    return _certified(_minimum(psi, part, weights, start))


def _minimum(psi: AbstractPsi, part: Part, weights: Host | None, start: Host | None) -> Any:
    """What loops have found; None: nothing, or there are none for this ψ."""
    found = _MINIMA.get(type(psi))
    return None if found is None else found(psi, part, weights, start)


def _mean(psi: AbstractPsi, part: Part, weights: Host | None, start: Host | None) -> Any:
    return _loops().mean(part, weights)


def _geometric(psi: L2, part: Part, weights: Host | None, start: Host | None) -> Any:
    if part.size == 1:
        return _minimum(L1(psi.delta), part, weights, start)
    delta, weight = float(psi.delta), len(part.w_local) if weights is None else weights.sum()
    loops = _loops()
    w, passes, _, pull, done = loops.delta_geometric_median(part, weights, delta, start)
    return loops.Found(w, passes, pull * (delta / weight), pull, done)


def _coordinatewise(psi: L1, part: Part, weights: Host | None, start: Host | None) -> Any:
    return _loops().delta_coordinate_median(part, weights, float(psi.delta), start)


def _by_blocks(psi: Blocks, part: Part, weights: Host | None, start: Host | None) -> Any:
    psi.require_size(part.size)
    w, parts = np.empty(part.size, np.float32), []
    for pattern, pieces in psi.spans.items():
        columns: Any
        if len(pieces) == 1:
            ((first, last),) = pieces
            columns = slice(first, last)
            block = Part(part.w_local, part.column + first, last - first, w[columns])
        else:
            columns = np.concatenate([np.arange(*piece) for piece in pieces])
            block = all_of(part.w_local[:, part.column + columns])
        begin = None if start is None else start[columns]
        found = _minimum(psi.parts[pattern], block, weights, begin)
        if found is None or not found.done:
            return None
        if found.w is not block.to:
            w[columns] = found.w
        parts.append(found)
    return _loops().together(w, parts)


_MINIMA: dict[type[AbstractPsi], Callable[..., Any]] = {
    Zero: _mean,
    Anchor: _mean,
    Quadratic: _mean,
    L2: _geometric,
    L1: _coordinatewise,
    Blocks: _by_blocks,
}


def follow_mean(w_local: Host, memory: Sum, change: Change) -> tuple[Aggregate, Sum] | None:
    """What ``sums.follow`` does."""
    n, now = len(w_local), w_local[change.rows]
    more = now - change.before
    lost, most = bounds(memory, more, now, n, of=np)
    if lost > most:
        found = mean(all_of(w_local), None)
        return found and (found, _sum(n * np.asarray(found.w, np.float64), 0 * most))
    high, low, _ = memory
    total = np.asarray(high, np.float64) + low + more.sum(axis=0, dtype=np.float64)
    return exact((total / n).astype(now.dtype)), _sum(total, lost)


def _sum(total: Host, lost: Any) -> Sum:
    high: Any = total.astype(np.float32)
    low: Any = (total - high).astype(np.float32)
    return Sum(high, low, lost)


def follow_geometric(
    w_local: Host, delta: float, start: Host, memory: Pulled, change: Change
) -> Any | None:
    """What ``pulled.follow`` does."""
    found = _loops().followed_geometric(w_local, change, delta, start, memory)
    return found if found.done else None


def follow_coordinates(
    w_local: Host, delta: float, start: Host, memory: Neighbourhoods, change: Change
) -> tuple[Aggregate, Neighbourhoods] | None:
    """What ``neighbourhoods.follow`` does."""
    found = _certified(_loops().followed_coordinates(w_local, change, delta, start, memory))
    return None if found is None else (found, memory)


def follow(
    psi: AbstractPsi, w_local: Host, start: Host, memory: Any, change: Change
) -> tuple[Aggregate, Any] | None:
    """``Moreau(psi)``'s."""
    if isinstance(psi, Zero | Anchor | Quadratic):
        return follow_mean(w_local, memory, change)
    if isinstance(psi, L1):
        return follow_coordinates(w_local, float(psi.delta), start, memory, change)
    if not isinstance(psi, L2):
        return None
    delta = float(psi.delta)
    found = follow_geometric(w_local, delta, start, memory, change)
    if found is None:
        return None
    return certified(found.w, found.passes, found.pull * delta / len(w_local), True), memory


@cache
def _loops() -> Any:
    """Imported where they are used: that imports Numba."""
    from fedplus.aggregation.native import alone

    return alone


def _certified(found: Any) -> Aggregate | None:
    if found is None or not found.done:
        return None
    return certified(found.w, found.passes, found.left, True)
