"""The coordinatewise median, weighted or not, a column at a time.

The search of ``aggregation/median.py``, where each coordinate takes the passes that it needs. A column
is compared as whole numbers in the order of its entries, of which a register finds the largest and the
least in one instruction.
"""

import numpy as np

from fedplus.aggregation.native.columns import TOGETHER, copy, extremes, with_room
from fedplus.aggregation.native.loop import (
    EPSILON,
    FOUR,
    HALF,
    INFINITY,
    TINY,
    TWO,
    ZERO,
    Float,
    Floats,
    Int,
    Ints,
    in_threads,
    loop,
    loop_in_threads,
    piece,
)
from fedplus.aggregation.search import MOST_PASSES, NEAR

LARGEST, SMALLEST = np.int32(2**31 - 1), np.int32(1 - 2**31)


@loop
def ordered(bits: Int) -> Int:
    """Whole numbers in the order of the floating-point numbers of these bits; the inverse, too."""
    return np.int32(bits ^ ((bits >> 31) & LARGEST))


@loop
def key_of(x: Float) -> Int:
    """The whole number for a floating-point number."""
    return ordered(np.float32(x).view(np.int32))


@loop
def number_of(key: Int) -> Float:
    """The floating-point number for a whole number."""
    return np.int32(ordered(key)).view(np.float32)


@loop
def count(keys: Ints, a: Floats, at: Int) -> tuple[Float, Int, Int]:
    """The weight up to a point, the nearest party there or below, and the nearest above."""
    up_to, below, above = ZERO, SMALLEST, LARGEST
    for k in range(len(keys)):
        key, a_k = keys[k], a[k]
        lower = key <= at
        up_to += a_k if lower else ZERO
        below = max(below, key if lower else SMALLEST)
        above = min(above, LARGEST if lower else key)
    return up_to, below, above


@loop
def median(
    keys: Ints, a: Floats, all_weights: tuple[Float, Float, Float], start: Float, spacing: Float
) -> tuple[Float, int, bool]:
    """The middle of all minimisers of Σ a_k|w_k − w|, the passes, and whether these were enough.

    ``spacing``: how far w moves past a unit of weight, about.
    """
    weight, least, largest = all_weights
    tied = FOUR * EPSILON * weight
    low, high, pull_low, pull_high = -INFINITY, INFINITY, INFINITY, -INFINITY
    at, last = start, INFINITY
    for passes in range(1, MOST_PASSES + 1):
        up_to, key_below, key_above = count(keys, a, key_of(at))
        below, above = number_of(key_below), number_of(key_above)
        pull = weight - TWO * up_to
        if abs(pull) <= tied:
            return HALF * below + HALF * above, passes, True
        # With less than one party's weight to go, the neighbour itself is the median.
        if pull > 0:
            low, pull_low = above, pull
            if pull < TWO * least:
                high = above
        else:
            high, pull_high = below, pull
            if pull > -TWO * least:
                low = below
        if low >= high:
            return above if pull > 0 else below, passes, True
        if abs(pull) <= NEAR * largest:
            at = above if pull > 0 else number_of(np.int32(key_below - 1))
        elif pull_low == INFINITY or pull_high == -INFINITY:
            away = HALF * abs(pull) * spacing + EPSILON * abs(at) + TINY
            if abs(pull) > HALF * last:
                away *= FOUR ** min(passes, 40)
            at += np.float32(away if pull > 0 else -away)
        elif passes % 4 == 3:
            at = low + HALF * (high - low)
        else:
            at = low + (high - low) * (pull_low / (pull_low - pull_high))
        if not low <= at < high:
            at = low
        last = abs(pull)
    return at, passes, False


@loop
def solve(
    w_local: Floats, weights: Floats, start: Floats, spacing: Floats, column: int, begin: int,
    end: int, w: Floats, passes: Ints, closed: Ints,
) -> None:  # fmt: skip
    """The columns from ``begin`` to ``end``, of those from ``column`` on; results count from 0."""
    a, all_weights = with_room(weights), extremes(weights)
    entries, together = w_local.view(np.int32), np.empty((TOGETHER, len(a)), np.int32)
    for first in range(begin, end, TOGETHER):
        last = min(first + TOGETHER, end)
        copy(entries, column + first, column + last, together)
        for j in range(first, last):
            keys, i = together[j - first], j - begin
            for k in range(len(keys)):
                keys[k] = ordered(keys[k])
            w[i], passes[i], closed[i] = median(keys, a, all_weights, start[j], spacing[j])


@loop
def medians(
    w_local: Floats, weights: Floats, start: Floats, spacing: Floats, part: Ints,
    w: Floats, passes: Ints, closed: Ints,
) -> None:  # fmt: skip
    """The columns of a part: from which on, up to which, threads (here one), and of which."""
    solve(w_local, weights, start, spacing, part[3], part[0], part[1], w, passes, closed)


@loop_in_threads
def medians_in_threads(
    w_local: Floats, weights: Floats, start: Floats, spacing: Floats, part: Ints,
    w: Floats, passes: Ints, closed: Ints,
) -> None:  # fmt: skip
    """The same as ``medians``."""
    first, d, threads = part[0], part[1] - part[0], part[2]
    for t in in_threads(threads):
        a, b = piece(d, t, threads)
        solve(
            w_local, weights, start, spacing, part[3], first + a, first + b,
            w[a:b], passes[a:b], closed[a:b],
        )  # fmt: skip
