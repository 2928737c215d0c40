"""Aggregation by these loops alone, of a finite W that is at hand: nothing waits for JAX.

A small aggregation through JAX is mostly its dispatch, and the waking of its threads beside ours.
"""

from collections.abc import Callable, Sequence
from functools import cache
from math import hypot
from typing import Any, NamedTuple

import numpy as np

from fedplus._types import Host
from fedplus.aggregation.median import NETWORK_UP_TO
from fedplus.aggregation.native import (
    few,
    finite,
    following,
    geometric_median,
    glance,
    means,
    median,
    pulled,
    ranks,
    soft_median,
)
from fedplus.aggregation.native.calls import FEW, STEPS, steps_of, walk_of
from fedplus.aggregation.native.place import Part
from fedplus.aggregation.native.switch import most_threads
from fedplus.aggregation.network import comparators
from fedplus.aggregation.search import evenly, sample_of
from fedplus.aggregation.start import START_ROWS

LEAST = {"sum": 2**19, "columns": 2**17, "turns": 2**18, "network": 2**16, "lists": 2**10}
"""Entries that are read (of lists: how many), from which on another thread is worth waking."""

COLUMNS = 2**17
"""Columns whose medians are found at a time: what that takes stays in a cache, and the system is not
asked for memory again and again."""
GLANCED_AT = 256
"""Parties up to which the start of a geometric median is worth a pass over W."""


class Found(NamedTuple):
    """A model, and what it took."""

    w: Host
    passes: int
    left: float
    """‖·‖₂ of the step that is left."""
    pull: float
    """‖·‖₂ of the sum of the parties' pulls."""
    done: bool
    """If not, W is not finite, or these loops are not for it."""


def mean(part: Part, weights: Host | None) -> Found:
    """Σ a_k w_k / Σ a_k; None: all equal."""
    w_local, column, size, _ = part
    weights, total = _each(part, weights), part.room()
    threads = _threads("sum", len(weights) * size)
    if threads == 1:
        return Found(total, 1, 0.0, 0.0, means.mean(w_local, weights, column, total))
    done = means.mean_in_threads(w_local, weights, column, threads, total)
    return Found(total, 1, 0.0, 0.0, done)


def coordinate_median(part: Part, weights: Host | None, start: Host | None) -> Found:
    """The coordinatewise median."""
    return _some_at_a_time(part, start, lambda some, at: _medians(some, weights, at))


def _medians(part: Part, weights: Host | None, start: Host | None) -> Found:
    w_local, column, size, _ = part
    if weights is None and start is None and len(w_local) <= NETWORK_UP_TO:
        return Found(_median_of(part, NETWORK_UP_TO), 1, 0.0, 0.0, _is_finite(part))
    weights = _each(part, weights)
    middle, spacing = _sampled(part)
    spacing *= len(weights) / weights.sum()
    w, passes, closed = part.room(), *np.empty((2, size), np.int32)
    threads = _threads("columns", len(weights) * size)
    solve = median.medians if threads == 1 else median.medians_in_threads
    begin = middle if start is None else start
    which = _whole(size, threads, column, walk_of(start is not None))
    solve(w_local, weights, begin, spacing, which, w, passes, closed)
    return Found(w, int(passes.max()), 0.0, 0.0, bool(closed.all()))


def delta_coordinate_median(
    part: Part, weights: Host | None, delta: float, start: Host | None
) -> Found:
    """The δ-coordinatewise median."""
    return _some_at_a_time(part, start, lambda some, at: _soft_medians(some, weights, delta, at))


def _soft_medians(part: Part, weights: Host | None, delta: float, start: Host | None) -> Found:
    w_local, column, size, _ = part
    if start is None and weights is None and len(w_local) <= NETWORK_UP_TO:
        start = _median_of(part, NETWORK_UP_TO)  # The root is at most δ away.
        steps, spacing = STEPS, np.zeros_like(start)
    else:
        middle, spacing = _sampled(part)
        steps = int(steps_of(start is not None, delta, spacing))
        start = middle if start is None else start
    weights = _each(part, weights)
    spacing *= len(weights) / weights.sum()
    w, pull = part.room(), np.empty(size, np.float32)
    passes, done = np.empty((2, size), np.int32)
    threads = _threads("columns", len(weights) * size)
    solve = soft_median.soft_medians if threads == 1 else soft_median.soft_medians_in_threads
    which = _whole(size, threads, column, steps)
    solve(w_local, weights, _one(delta), start, spacing, which, w, pull, passes, done)
    if not done.all():  # What is left is whatever was in memory.
        return Found(w, 0, 0.0, 0.0, False)
    strength = float(np.linalg.norm(pull))
    return Found(w, int(passes.max()), strength / weights.sum(), strength, True)


def _some_at_a_time(
    part: Part, start: Host | None, solve: Callable[[Part, Host | None], Found]
) -> Found:
    """All columns of a part, by a function of some of them, and of where the search begins there."""
    if part.size <= COLUMNS:
        return solve(part, start)
    w_local, column, size, _ = part
    w, found = part.room(), []
    for first in range(0, size, COLUMNS):
        last = min(first + COLUMNS, size)
        to, begin = w[first:last], None if start is None else start[first:last]
        one = solve(Part(w_local, column + first, last - first, to), begin)
        if not one.done:
            return one
        if one.w is not to:
            to[:] = one.w
        found.append(one)
    return together(w, found)


def together(w: Host, parts: Sequence[Found]) -> Found:
    """A model whose parts are these, all of them done."""
    passes, left, pull = 0, 0.0, 0.0
    for one in parts:
        passes, left, pull = max(passes, one.passes), hypot(left, one.left), hypot(pull, one.pull)
    return Found(w, passes, left, pull, True)


def delta_geometric_median(
    part: Part, weights: Host | None, delta: float, start: Host | None
) -> Found:
    """The δ-geometric median by its ordinary turns."""
    w_local, column, size, _ = part
    weights = _each(part, weights)
    threads = _threads("turns", len(weights) * size)
    w = part.room()
    if start is not None:
        w[:] = start
    elif len(weights) <= FEW:
        which = _whole(len(weights), threads, column)
        few.near_median_in_threads(w_local, weights, _one(delta), which, w)
    elif len(weights) <= GLANCED_AT:
        glance.start_from_glance(w_local, weights, column, threads, w)
    else:
        w[:] = _median_of(part, START_ROWS)
        geometric_median.start_from(w_local, weights, column, w)
    turns, left, slope, done = geometric_median.geometric_median(
        w_local, weights, np.float32(delta), column, threads, w
    )
    return Found(w, turns, float(left), float(slope * left), done)


def followed_geometric(
    w_local: Host, change: tuple[Host, Host], delta: float, start: Host, memory: tuple[Any, ...]
) -> Found:
    """The δ-geometric median; ``memory`` is written to."""
    ahead, slope, along, yields, coarse = memory
    if not slope > 0:
        ahead[:] = start
    w, threads = np.empty_like(ahead), _threads("turns", w_local.size)
    numbers = slope.reshape(1), yields.reshape(1)  # The same memory, as loops take it.
    turns, left, done = pulled.follow(
        w_local, *change, _one(delta), _whole(len(w_local), threads, 0), w, ahead, numbers[0], along,
        numbers[1], *coarse,
    )  # fmt: skip
    return Found(w, turns, float(left), float(slope * left), done)


def followed_coordinates(
    w_local: Host, change: tuple[Host, Host], delta: float, start: Host, memory: tuple[Host, ...]
) -> Found:
    """The δ-coordinatewise median, δ = 0: the median; ``memory`` is written to."""
    d, (edges, counts, sums, values) = len(start), memory
    (w, pull), (passes, done) = np.empty((2, d), np.float32), np.empty((2, d), np.int32)
    threads = _threads("lists", d)
    follow = following.follow if threads == 1 else following.follow_in_threads
    follow(
        w_local, *change, _one(delta), start, _whole(d, threads, 0),
        edges, counts, sums.view(np.float64), values, w, pull, passes, done,
    )  # fmt: skip
    strength = float(np.linalg.norm(pull))
    return Found(w, int(passes.max()), strength / len(w_local), strength, bool(done.all()))


def _is_finite(part: Part) -> bool:
    w_local, column, size, _ = part
    threads = _threads("sum", len(w_local) * size)
    found: bool = finite.all_are_finite(w_local.view(np.int32), column, size, threads)
    return found


def _median_of(part: Part, most: int) -> Host:
    """The coordinatewise median of at most so many rows."""
    count = min(len(part.w_local), most)
    low, high = _ranked(part, count, ((count - 1) // 2, count // 2))
    middle: Host = low if count % 2 else np.float32(0.5) * (low + high)
    return middle


def _sampled(part: Part) -> tuple[Host, Host]:
    """The same as ``sample_rows``."""
    sample = sample_of(len(part.w_local))
    lower, middle, upper = _ranked(part, sample.size, sample.ranks)
    return middle, (upper - lower) * np.float32(sample.share)


def _ranked(part: Part, count: int, which: tuple[int, ...]) -> Host:
    found = np.empty((len(which), part.size), np.float32)
    args = _network(len(part.w_local), count, which)
    ranks.ranked(part.w_local, *args, part.column, _threads("network", count * part.size), found)
    return found


@cache
def _network(n: int, count: int, which: tuple[int, ...]) -> tuple[Host, Host, Host]:
    """So many rows of n, the network that orders them, and the ranks, for the loop."""
    network = np.array(comparators(count, which), np.int32).reshape(-1, 2)
    return np.array(evenly(n, count), np.int32), network, np.array(which, np.int32)


def _threads(kind: str, entries: int) -> int:
    return most_threads() if entries >= LEAST[kind] else 1


def _whole(total: int, threads: int, column: int, steps: int = 0) -> Host:
    return np.array([0, total, threads, column, steps], np.int32)


def _each(part: Part, weights: Host | None) -> Host:
    return _ones(len(part.w_local)) if weights is None else weights


@cache
def _ones(n: int) -> Host:
    """Only to be read; Numba compiles anew for what cannot be written."""
    return np.ones(n, np.float32)


def _one(number: Any) -> Host:
    return np.array([number], np.float32)
