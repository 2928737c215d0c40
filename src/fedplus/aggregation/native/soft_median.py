"""The δ-coordinatewise median, a column at a time: the search of ``aggregation/soft_median.py``.

Each coordinate takes the passes that it needs. Where nobody is within δ of where it begins, it goes on
from the median, which is never further than δ from the root.
"""

import numpy as np

from fedplus.aggregation.native.columns import (
    TOGETHER,
    abreast,
    copy_undone,
    extremes,
    with_room,
)
from fedplus.aggregation.native.finite import are_finite
from fedplus.aggregation.native.loop import (
    EPSILON,
    FOUR,
    HALF,
    INFINITY,
    TWO,
    ZERO,
    Float,
    Floats,
    Index,
    Ints,
    in_threads,
    loop,
    loop_in_threads,
    piece,
    put,
)
from fedplus.aggregation.native.median import median
from fedplus.aggregation.native.newton import newton
from fedplus.aggregation.native.order import ordered
from fedplus.aggregation.search import MOST_PASSES


@loop
def pull_and_slope(
    x: Floats, a: Floats, at: Float, delta: Float, inner: Float
) -> tuple[Float, Float, Float]:
    """Σ a_k clip(w_k − w, −δ, δ), and the weights of those within δ, and within a little less."""
    pull, free, inside = ZERO, ZERO, ZERO
    for k in range(len(x)):
        away, a_k = x[k] - at, a[k]
        clipped = away if away < delta else delta
        clipped = clipped if clipped > -delta else -delta
        pull += a_k * clipped
        free += a_k if abs(away) < delta else ZERO
        inside += a_k if abs(away) < inner else ZERO
    return pull, free, inside


@loop
def balance_and_end(
    x: Floats, a: Floats, weight: Float, delta: Float, at: Float, inner: Float
) -> tuple[Float, Float]:
    """Where nobody is within δ: by how much the weight above is more than that below.

    And, if it is not, the nearest point to the mean of the interval of roots, where the paper's
    recursion stops.
    """
    below, above, mean, more = -INFINITY, INFINITY, ZERO, ZERO
    for k in range(len(x)):
        away = x[k] - at
        below = max(below, x[k] if away <= -inner else -INFINITY)
        above = min(above, x[k] if away >= inner else INFINITY)
        mean += x[k] * a[k]
        more += a[k] if away > 0 else -a[k]
    return more, min(max(mean / weight, below + delta), above - delta)


@loop
def soft_median(
    x: Floats, keys: Ints, a: Floats, all_weights: tuple[Float, Float, Float], delta: Float,
    start: Float, spacing: Float,
) -> tuple[Float, Float, int, bool]:  # fmt: skip
    """The root, Σ a_k clip(w_k − w, −δ, δ) where the last pass looked, the passes, and whether done.

    ``keys`` is room for the column as ``median`` wants it.
    """
    weight, _, largest = all_weights
    low, high, pull_low, pull_high = -INFINITY, INFINITY, INFINITY, -INFINITY
    at, last, left, asked, passes = start, INFINITY, INFINITY, 0, 0
    reach = HALF * delta * weight / largest
    while passes < MOST_PASSES:
        passes += 1
        rounding = EPSILON * (TWO * abs(at) + reach)
        inner = delta - FOUR * rounding
        pull, free, inside = pull_and_slope(x, a, at, delta, inner)
        left = pull
        if pull > 0:
            low, pull_low = max(low, at), pull
        elif pull < 0:
            high, pull_high = min(high, at), pull
        size = abs(pull)
        if inside == 0 and size <= FOUR * (free * rounding + EPSILON * delta * weight):
            more, end = balance_and_end(x, a, weight, delta, at, inner)
            if abs(more) <= FOUR * EPSILON * weight:
                return end, left, passes, True
        if free > 0:
            step = pull / free
            if size <= delta * free and abs(step) <= rounding:
                return at + step, left, passes, True
        else:
            step = HALF * pull * spacing / delta + (delta if pull > 0 else -delta)
        if high - low <= EPSILON * abs(at):
            return at, left, passes, True
        stalled = size > HALF * last
        last = size
        if (free == 0 or stalled) and asked == 0:
            bits = x.view(np.int32)
            for k in range(len(keys)):
                keys[k] = ordered(bits[k])
            at, asked, _ = median(keys, a, all_weights, at, spacing)
            passes += asked
        elif low == -INFINITY or high == INFINITY:
            at += step * FOUR ** min(passes, 40) if stalled else step
        elif low < at + step < high and not stalled:
            at += step
        else:
            share = HALF if passes % 4 == 3 else pull_low / (pull_low - pull_high)
            between = low + (high - low) * share
            # Between neighbouring numbers rounding would give ``high`` for ever.
            at = between if between < high else low
    return at, left, passes, False


@loop
def solve(
    w_local: Floats, weights: Floats, delta: Float, start: Floats, spacing: Floats, column: int,
    begin: int, end: int, steps: int, w: Floats, pull: Floats, passes: Ints, done: Ints,
) -> None:  # fmt: skip
    """The columns from ``begin`` to ``end``, of those from ``column`` on; results count from 0.

    ``steps``: how many of Newton's steps coordinates take together before each goes by itself. None is
    done whose column is not finite.
    """
    a, all_weights = with_room(len(weights)), extremes(weights)
    put(weights, a[: len(weights)])
    entries, together = w_local.view(np.int32), np.empty((TOGETHER, len(a)), np.int32)
    keys, width = np.empty(len(a), np.int32), abreast(len(weights))
    room, which = np.empty((3, width), np.float32), np.empty(TOGETHER, np.int32)
    for first in range(begin, end, width):
        last = min(first + width, end)
        i, k = first - begin, last - begin
        for j in range(first, last):
            w[j - begin] = start[j]
        took = newton(
            w_local, weights, all_weights, delta, steps, column + first, column + last,
            w[i:k], pull[i:k], done[i:k], room,
        )  # fmt: skip
        for j in range(i, k):
            passes[j] = took
        if took < 0:
            continue
        for j in range(first, last, TOGETHER):
            some = done[j - begin : min(j + TOGETHER, last) - begin]
            count = copy_undone(entries, column + j, some, which, together)
            for c in range(count):
                x, i = together[c].view(np.float32), j - begin + which[c]
                if not are_finite(x):
                    continue
                w[i], pull[i], more, done[i] = soft_median(
                    x, keys, a, all_weights, delta, w[i], spacing[j + which[c]]
                )
                passes[i] += more


@loop
def soft_medians(
    w_local: Floats, weights: Floats, delta: Floats, start: Floats, spacing: Floats, part: Ints,
    w: Floats, pull: Floats, passes: Ints, done: Ints,
) -> None:  # fmt: skip
    """The columns of a part: from which on, up to which, threads (here one), of which, and steps."""
    column, begin, end, steps = Index(part[3]), Index(part[0]), Index(part[1]), Index(part[4])
    solve(
        w_local, weights, delta[0], start, spacing, column, begin, end, steps,
        w, pull, passes, done,
    )  # fmt: skip


@loop_in_threads
def soft_medians_in_threads(
    w_local: Floats, weights: Floats, delta: Floats, start: Floats, spacing: Floats, part: Ints,
    w: Floats, pull: Floats, passes: Ints, done: Ints,
) -> None:  # fmt: skip
    """The same as ``soft_medians``."""
    first, d, threads = Index(part[0]), Index(part[1] - part[0]), Index(part[2])
    column, steps = Index(part[3]), Index(part[4])
    for t in in_threads(threads):
        a, b = piece(d, t, threads)
        solve(
            w_local, weights, delta[0], start, spacing, column, first + a, first + b, steps,
            w[a:b], pull[a:b], passes[a:b], done[a:b],
        )  # fmt: skip
