"""Newton's steps towards the δ-coordinatewise median, many coordinates at a time.

With few parties a column fills no registers, a stretch of a row does. From the median most coordinates
are at the root after a few steps; who is not is searched for by itself.
"""

import numpy as np

from fedplus.aggregation.native.columns import FEW
from fedplus.aggregation.native.finite import are_finite
from fedplus.aggregation.native.loop import (
    EPSILON,
    FOUR,
    HALF,
    INFINITY,
    ONE,
    TWO,
    ZERO,
    Float,
    Floats,
    Ints,
    loop,
    loop_of_any,
)

FLAT = 2
"""Where nobody is within δ by more than rounding may hide, and the pulls are in balance."""


@loop_of_any
def pull_and_slope(
    w_local: Floats, weights: Floats, delta: Float, begin: int, end: int,
    at: Floats, inner: Floats, pull: Floats, inside: Floats, total: Floats,
) -> None:  # fmt: skip
    """Σ a_k clip(w_k − w, −δ, δ), the weight of those within ``inner``, and Σ (w_k − w)."""
    pull[:], inside[:], total[:] = ZERO, ZERO, ZERO
    k, n, least = 0, len(w_local), -delta
    while k + 4 <= n:
        row, second = w_local[k, begin:end], w_local[k + 1, begin:end]
        third, fourth = w_local[k + 2, begin:end], w_local[k + 3, begin:end]
        a, b, c, e = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for j in range(len(at)):
            edge = inner[j]
            x, y, z, u = row[j] - at[j], second[j] - at[j], third[j] - at[j], fourth[j] - at[j]
            pull[j] += (a * clipped(x, least, delta) + b * clipped(y, least, delta)) + (
                c * clipped(z, least, delta) + e * clipped(u, least, delta)
            )
            inside[j] += ((a if abs(x) < edge else ZERO) + (b if abs(y) < edge else ZERO)) + (
                (c if abs(z) < edge else ZERO) + (e if abs(u) < edge else ZERO)
            )
            total[j] += (x + y) + (z + u)
        k += 4
    while k < n:
        row, a = w_local[k, begin:end], weights[k]
        for j in range(len(at)):
            x = row[j] - at[j]
            pull[j] += a * clipped(x, least, delta)
            inside[j] += a if abs(x) < inner[j] else ZERO
            total[j] += x
        k += 1


@loop
def clipped(x: Float, least: Float, most: Float) -> Float:
    """The nearest number between two."""
    x = x if x < most else most
    return x if x > least else least


@loop
def ends(
    w_local: Floats, delta: Float, reach: Float, begin: int, end: int,
    at: Floats, low: Floats, high: Floats,
) -> None:  # fmt: skip
    """The ends of an interval of roots: δ from the nearest parties that are δ away or more."""
    low[:], high[:] = -INFINITY, INFINITY
    for k in range(len(w_local)):
        row = w_local[k, begin:end]
        for j in range(len(row)):
            x, inner = row[j], delta - FOUR * EPSILON * (TWO * abs(at[j]) + reach)
            below = x + delta if x - at[j] <= -inner else -INFINITY
            above = x - delta if x - at[j] >= inner else INFINITY
            low[j] = below if below > low[j] else low[j]
            high[j] = above if above < high[j] else high[j]


@loop
def mean_and_balance(
    w_local: Floats, weights: Floats, begin: int, end: int, at: Floats, mean: Floats, more: Floats
) -> None:
    """Σ a_k w_k, and by how much the weight above w is more than that below."""
    mean[:], more[:] = ZERO, ZERO
    for k in range(len(w_local)):
        row, a_k = w_local[k, begin:end], weights[k]
        for j in range(len(row)):
            mean[j] += a_k * row[j]
            more[j] += a_k if row[j] > at[j] else -a_k


@loop
def newton(
    w_local: Floats, weights: Floats, all_weights: tuple[Float, Float, Float], delta: Float,
    steps: int, begin: int, end: int, at: Floats, pull: Floats, done: Ints, room: Floats,
) -> int:  # fmt: skip
    """Move ``at`` towards the roots in the columns given, a few steps at most; how many it took.

    ``pull`` is what the last pass found, ``room`` three rows to write to. Where half of the weight
    pulls in full on either side, w is the interval's nearest point to the mean. A pass less than
    none: W is not finite there.
    """
    weight, _, largest = all_weights
    reach, level = HALF * delta * weight / largest, FOUR * EPSILON * delta * weight
    done[:], passes, levels = 0, 0, 0
    inner, inside, total = room[0, : len(at)], room[1, : len(at)], room[2, : len(at)]
    while passes < steps:
        passes += 1
        for j in range(len(at)):
            inner[j] = delta - FOUR * EPSILON * (TWO * abs(at[j]) + reach)
        pull_and_slope(w_local, weights, delta, begin, end, at, inner, pull, inside, total)
        if not are_finite(total):
            return -1
        settled, levels = 0, 0
        for j in range(len(at)):
            slope, rounding = inside[j], EPSILON * (TWO * abs(at[j]) + reach)
            step = pull[j] / (slope if slope > 0 else ONE)
            ok = (slope > 0) & (abs(pull[j]) <= delta * slope) & (abs(step) <= rounding)
            flat = (slope <= 0) & (abs(pull[j]) <= level)
            at[j] += step if slope > 0 else ZERO
            done[j] = FLAT if flat else 1 if ok else 0
            settled += 1 if ok else 0
            levels += 1 if flat else 0
        if FEW * (len(at) - settled - levels) <= len(at):
            break
    if levels > 0:
        found = np.empty((4, len(at)), np.float32)
        low, high, mean, more = found[0], found[1], found[2], found[3]
        ends(w_local, delta, reach, begin, end, at, low, high)
        mean_and_balance(w_local, weights, begin, end, at, mean, more)
        for j in range(len(at)):
            if done[j] == FLAT:
                done[j] = 1 if abs(more[j]) <= FOUR * EPSILON * weight else 0
                if done[j] == 1:
                    at[j] = min(max(mean[j] / weight, low[j]), high[j])
    return passes
