"""Coordinatewise medians of a W of which a few rows change, by what each coordinate remembers.

The root is found among the few dozen parties on its list, whatever N is. Where it leaves its interval,
or the list is full, W is looked at again, a cache line of columns at a time: the others on it cost
little more. δ = 0 stands for the median itself.
"""

from typing import Any

import numpy as np

from fedplus.aggregation.native.columns import copy_undone, with_room
from fedplus.aggregation.native.lists import (
    ABOVE,
    ALL,
    BELOW,
    HIGH,
    LARGEST,
    LISTED,
    LOW,
    SPRINGS,
    put_back,
    remember,
)
from fedplus.aggregation.native.loop import (
    EPSILON,
    FOUR,
    HALF,
    INFINITY,
    ONE,
    TWO,
    ZERO,
    Doubles,
    Float,
    Floats,
    Index,
    Ints,
    in_threads,
    inlined,
    loop,
    loop_in_threads,
    piece,
)
from fedplus.aggregation.native.median import median
from fedplus.aggregation.native.order import ordered
from fedplus.aggregation.native.soft_median import soft_median

LINE, ABREAST = 16, 256
"""Columns on a cache line, and columns that are counted together."""
MOST_LOOKS = 24
LEFT_BEHIND = 1e-12
"""Of a number that comes and goes, what rounding may leave of it in a sum of 64 bits, in the end."""


@loop
def pull_of_listed(values: Floats, at: Float, delta: Float, inner: Float) -> tuple[Float, int]:
    """Σ clip(w_k − w, −δ, δ) over a list, and how many are within a little less than δ."""
    pull, inside = ZERO, 0
    for i in range(len(values)):
        away = values[i] - at
        clipped = away if away < delta else delta
        pull += clipped if clipped > -delta else -delta
        inside += 1 if abs(away) < inner else 0
    return pull, inside


@loop
def ends(values: Floats, low: Float, high: Float, delta: Float, at: Float) -> tuple[Float, Float]:
    """Of an interval of roots around ``at``, within ``low`` and ``high``."""
    for i in range(len(values)):
        if values[i] < at:
            low = max(low, values[i] + delta)
        else:
            high = min(high, values[i] - delta)
    return low, high


@loop
def root(
    values: Floats, edges: tuple[Float, Float], balance: float, springs: int,
    mean: tuple[float, float], parties: int, delta: Float, at: Float,
) -> Any:  # fmt: skip
    """The root, G where it was looked for last, and whether it is in the interval ``edges``.

    ``balance``: G of those that are not listed, at 0; ``mean``: Σ w_k / N lies between these.
    """
    low, high = edges
    pull, at = np.inf, min(max(at, low), high)
    lower, upper, known_below, known_above = low, high, False, False
    for _ in range(MOST_LOOKS):
        rounding = EPSILON * (TWO * abs(at) + delta)
        inner = delta - FOUR * rounding
        more, inside = pull_of_listed(values, at, delta, inner)
        pull = balance - springs * np.float64(at) + more
        slope = springs + inside
        if slope > 0:
            step = Float(pull / slope)
            onwards = at + step
            if abs(step) <= rounding:
                return onwards, pull, low <= onwards <= high
        elif abs(pull) <= FOUR * EPSILON * delta * parties:
            lower, upper = ends(values, low, high, delta, at)
            found = min(max(Float(mean[0]), lower), upper)
            other = min(max(Float(mean[1]), lower), upper)
            return found, pull, low < found < high and other - found <= rounding
        else:
            onwards = INFINITY if pull > 0 else -INFINITY
        if pull > 0:
            lower, known_below = at, True
        else:
            upper, known_above = at, True
        if (pull > 0 and at == high) or (pull < 0 and at == low):
            return at, pull, False
        if known_below and known_above and not (lower < onwards < upper):
            onwards = lower + HALF * (upper - lower)
        at = min(max(onwards, low), high)
    return at, pull, False


@loop
def ranked(values: Floats, rank: int, at: Float) -> Float:
    """The value of this rank on a list, from 0 on, walking there from ``at``."""
    for _ in range(len(values) + 1):
        under, up_to, below, above = 0, 0, -INFINITY, INFINITY
        for i in range(len(values)):
            x = values[i]
            under += 1 if x < at else 0
            up_to += 1 if x <= at else 0
            below = x if (x < at) & (x > below) else below
            above = x if (x > at) & (x < above) else above
        if under <= rank < up_to:
            return at
        at = above if rank >= up_to else below
    return at


@loop
def middle(values: Floats, below: int, parties: int, at: Float) -> tuple[Float, bool]:
    """The median of so many parties, and whether it is on the list; ``below`` it are so many."""
    low, high = (parties - 1) // 2 - below, parties // 2 - below
    if low < 0 or high >= len(values):
        return at, False
    first = ranked(values, low, at)
    second = ranked(values, high, first)
    return (first if low == high else HALF * first + HALF * second), True


@inlined
def look_again(
    x: Floats,
    keys: Ints,
    a: Floats,
    all_weights: tuple[Float, Float, Float],
    delta: Float,
    at: Float,
) -> tuple[Float, Float, int, bool]:
    """A column's root from all of it, the pull there, the passes, and whether they were enough."""
    if delta > 0:
        return soft_median(x, keys, a, all_weights, delta, at, Float(delta / LINE))
    bits = x.view(np.int32)
    for k in range(len(keys)):
        keys[k] = ordered(bits[k])
    found, passes, closed = median(keys, a, all_weights, at, ZERO)
    return found, ZERO, passes, closed


@inlined
def solve(
    w_local: Floats, rows: Ints, before: Floats, delta: Float, start: Floats, column: int,
    begin: int, end: int, edges: Floats, counts: Ints, sums: Doubles, values: Floats,
    w: Floats, pull: Floats, passes: Ints, done: Ints,
) -> None:  # fmt: skip
    """The columns from ``begin`` to ``end``, of those from ``column`` on; results count from 0.

    ``edges`` and so on are what is remembered, of all columns; ``passes``, those of columns that were
    looked at again.
    """
    n = len(w_local)
    a, all_weights = with_room(n), (Float(n), ONE, ONE)
    for k in range(n):
        a[k] = ONE
    entries, together = w_local.view(np.int32), np.empty((LINE, len(a)), np.int32)
    keys, which = np.empty(len(a), np.int32), np.empty(LINE, np.int32)
    moved, none_done = np.empty(ABREAST, np.int32), np.zeros(LINE, np.int32)
    for first in range(begin, end, ABREAST):
        last = min(first + ABREAST, end)
        put_back(
            w_local, rows, before, column, first, moved[: last - first], edges, counts, sums, values
        )  # fmt: skip
        for line in range(first, last, LINE):
            stop, lost = min(line + LINE, last), 0
            for j in range(line, stop):
                listed, above, below = counts[LISTED, j], counts[ABOVE, j], counts[BELOW, j]
                i = j - begin
                passes[i], done[i] = 1, 0
                if listed >= 0 and delta == 0:
                    w[i], found = middle(values[j, :listed], below, n, start[j])
                    pull[i], done[i] = 0, found
                elif listed >= 0:
                    balance = sums[SPRINGS, j] + np.float64(delta) * (above - below)
                    mean, lost_digits = sums[ALL, j] / n, LEFT_BEHIND * sums[LARGEST, j] / n
                    w[i], strength, found = root(
                        values[j, :listed], (edges[LOW, j], edges[HIGH, j]), balance,
                        n - above - below - listed, (mean - lost_digits, mean + lost_digits),
                        n, delta, start[j],
                    )  # fmt: skip
                    pull[i], done[i] = strength, found
                lost += 1 - done[i]
            if lost == 0:
                continue
            count = copy_undone(entries, column + line, none_done[: stop - line], which, together)
            for c in range(count):
                x, i = together[c].view(np.float32), line + c - begin
                w[i], pull[i], passes[i], done[i] = look_again(
                    x, keys, a, all_weights, delta, start[line + c]
                )
                remember(x[:n], w[i], delta, line + c, edges, counts, sums, values[line + c])


@loop
def follow(
    w_local: Floats, rows: Ints, before: Floats, delta: Floats, start: Floats, part: Ints,
    edges: Floats, counts: Ints, sums: Doubles, values: Floats,
    w: Floats, pull: Floats, passes: Ints, done: Ints,
) -> None:  # fmt: skip
    """The columns of a part: from which on, up to which, threads (here one), and of which."""
    solve(
        w_local, rows, before, delta[0], start, Index(part[3]), Index(part[0]), Index(part[1]),
        edges, counts, sums, values, w, pull, passes, done,
    )  # fmt: skip


@loop_in_threads
def follow_in_threads(
    w_local: Floats, rows: Ints, before: Floats, delta: Floats, start: Floats, part: Ints,
    edges: Floats, counts: Ints, sums: Doubles, values: Floats,
    w: Floats, pull: Floats, passes: Ints, done: Ints,
) -> None:  # fmt: skip
    """The same as ``follow``."""
    first, d, threads = Index(part[0]), Index(part[1] - part[0]), Index(part[2])
    for t in in_threads(threads):
        a, b = piece(d, t, threads)
        solve(
            w_local, rows, before, delta[0], start, Index(part[3]), first + a, first + b,
            edges, counts, sums, values, w[a:b], pull[a:b], passes[a:b], done[a:b],
        )  # fmt: skip
