"""The coordinatewise median, weighted or not, a column at a time.

The search of ``aggregation/median.py``, where each coordinate takes the passes that it needs.
"""

import numpy as np

from fedplus.aggregation.native.columns import (
    TOGETHER,
    abreast,
    copy_undone,
    extremes,
    with_room,
)
from fedplus.aggregation.native.counting import walk
from fedplus.aggregation.native.finite import are_finite
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
    Index,
    Int,
    Ints,
    in_threads,
    loop,
    loop_in_threads,
    piece,
    put,
)
from fedplus.aggregation.native.order import (
    LARGEST,
    SMALLEST,
    just_below,
    key_of,
    number_of,
    ordered,
)
from fedplus.aggregation.search import MOST_PASSES, NEAR


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
            at = above if pull > 0 else just_below(below)
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
    end: int, most: int, w: Floats, passes: Ints, closed: Ints,
) -> None:  # fmt: skip
    """The columns from ``begin`` to ``end``, of those from ``column`` on; results count from 0.

    ``most``: how many passes coordinates take together before each goes by itself. None is closed
    whose column is not finite.
    """
    a, all_weights = with_room(len(weights)), extremes(weights)
    put(weights, a[: len(weights)])
    entries, together = w_local.view(np.int32), np.empty((TOGETHER, len(a)), np.int32)
    width = abreast(len(weights))
    room, which = np.empty((4, width), np.float32), np.empty(TOGETHER, np.int32)
    for first in range(begin, end, width):
        last = min(first + width, end)
        i, k = first - begin, last - begin
        for j in range(first, last):
            w[j - begin] = start[j]
        took = walk(
            w_local, weights, all_weights, most, column + first, column + last,
            w[i:k], closed[i:k], room,
        )  # fmt: skip
        for j in range(i, k):
            passes[j] = took
        if took < 0:
            continue
        for j in range(first, last, TOGETHER):
            some = closed[j - begin : min(j + TOGETHER, last) - begin]
            count = copy_undone(entries, column + j, some, which, together)
            for c in range(count):
                keys, i = together[c], j - begin + which[c]
                if not are_finite(keys.view(np.float32)):
                    continue
                for k in range(len(keys)):
                    keys[k] = ordered(keys[k])
                w[i], more, closed[i] = median(keys, a, all_weights, w[i], spacing[j + which[c]])
                passes[i] += more


@loop
def medians(
    w_local: Floats, weights: Floats, start: Floats, spacing: Floats, part: Ints,
    w: Floats, passes: Ints, closed: Ints,
) -> None:  # fmt: skip
    """The columns of a part: from which on, up to which, threads (here one), of which, and passes."""
    column, begin, end, most = Index(part[3]), Index(part[0]), Index(part[1]), Index(part[4])
    solve(w_local, weights, start, spacing, column, begin, end, most, w, passes, closed)


@loop_in_threads
def medians_in_threads(
    w_local: Floats, weights: Floats, start: Floats, spacing: Floats, part: Ints,
    w: Floats, passes: Ints, closed: Ints,
) -> None:  # fmt: skip
    """The same as ``medians``."""
    first, d, threads = Index(part[0]), Index(part[1] - part[0]), Index(part[2])
    column, most = Index(part[3]), Index(part[4])
    for t in in_threads(threads):
        a, b = piece(d, t, threads)
        solve(
            w_local, weights, start, spacing, column, first + a, first + b, most,
            w[a:b], passes[a:b], closed[a:b],
        )  # fmt: skip
