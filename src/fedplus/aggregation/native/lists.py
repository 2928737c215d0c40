"""What a coordinate remembers of its neighbourhood, and how that changes with rows of W.

G(w) = Σ_k clip(w_k − w, −δ, δ) is linear between two breakpoints w_k ± δ. A coordinate keeps an
interval around its root. For all w in it, most parties pull in full, or as springs: of these it knows
how many there are, and the springs' sum. Parties that have a breakpoint within the interval are listed.
A row that changes is taken from where it was counted, or listed, and put where it belongs now.
"""

import numpy as np

from fedplus.aggregation.native.loop import (
    EPSILON,
    FOUR,
    HALF,
    TINY,
    TWO,
    ZERO,
    Doubles,
    Float,
    Floats,
    Ints,
    inlined,
    loop,
)

LOW, HIGH, UNDER, FROM, UP_TO, OVER = range(6)
"""An interval's ends; under the first of the others parties pull down in full; between the next two,
as springs; over the last, up in full."""
ABOVE, BELOW, LISTED = range(3)
"""How many parties pull up in full, down in full, and are listed; −1 of the last: nothing is known."""
SPRINGS, ALL, LARGEST = range(3)
"""Sums: of those that pull as springs, and of all; and the largest number that was ever in these."""
FEWEST, MOST = 12, 40
"""Parties that a new interval should have, and may have, on its list."""
MOST_LOOKS = 24
SAMPLE = 16
"""Parties of which the nearest tells how wide an interval may be."""


@loop
def recount(
    now: Floats, before: Floats, edges: Floats, counts: Ints, sums: Doubles, moved: Ints, begin: int
) -> int:
    """Count a row as it is now rather than as it was; 0 if no list is concerned.

    ``moved``: 1 where it is on the list now, 2 where it was, 3 for both.
    """
    end, some = begin + len(moved), 0
    under, first = edges[UNDER, begin:end], edges[FROM, begin:end]
    last, over = edges[UP_TO, begin:end], edges[OVER, begin:end]
    above, below = counts[ABOVE, begin:end], counts[BELOW, begin:end]
    springs, total = sums[SPRINGS, begin:end], sums[ALL, begin:end]
    largest = sums[LARGEST, begin:end]
    for j in range(len(moved)):
        x, y = now[j], before[j]
        up, down = x >= over[j], x <= under[j]
        spring = (x >= first[j]) & (x <= last[j]) & ~up & ~down
        was_up, was_down = y >= over[j], y <= under[j]
        was_spring = (y >= first[j]) & (y <= last[j]) & ~was_up & ~was_down
        above[j] += np.int32(up) - np.int32(was_up)
        below[j] += np.int32(down) - np.int32(was_down)
        springs[j] += np.float64(x if spring else ZERO) - np.float64(y if was_spring else ZERO)
        total[j] += np.float64(x) - np.float64(y)
        size = np.float64(abs(x))
        largest[j] = size if size > largest[j] else largest[j]
        is_listed, was_listed = ~(up | down | spring), ~(was_up | was_down | was_spring)
        moved[j] = np.int32(is_listed) + 2 * np.int32(was_listed)
        some += moved[j]
    return some


@inlined
def relist(values: Floats, listed: int, moved: int, now: Float, before: Float) -> int:
    """Take a party from a list, put it on, or both; how many are on it, −1 if there is no room."""
    if moved & 2:
        at = 0
        while at < listed and values[at] != before:
            at += 1
        if at == listed:
            return -1
        listed -= 1
        values[at] = values[listed]
    if moved & 1:
        if listed == len(values):
            return -1
        values[listed] = now
        listed += 1
    return listed


@inlined
def on_list(x: Floats, low: Float, high: Float, delta: Float) -> int:
    """How many of these an interval would list."""
    under, first, last, over = low - delta, high - delta, low + delta, high + delta
    count = 0
    for k in range(len(x)):
        count += 0 if (x[k] >= over) | (x[k] <= under) | ((x[k] >= first) & (x[k] <= last)) else 1
    return count


@inlined
def width_around(x: Floats, at: Float, delta: Float, guess: Float) -> Float:
    """How far an interval around a root should reach to list some parties, but not too many; or 0."""
    good, width = ZERO, guess
    for _ in range(MOST_LOOKS):
        count = on_list(x, at - width, at + width, delta)
        if count > MOST:
            if good > 0:
                break
            width *= HALF
        else:
            good = width
            if count >= FEWEST:
                break
            width *= TWO
    return good


@inlined
def nearest(x: Floats, at: Float) -> Float:
    """How far the nearest of a few parties is, those at the same place aside."""
    least = abs(x[0] - at)
    for i in range(1, SAMPLE):
        away = abs(x[i * len(x) // SAMPLE] - at)
        least = away if 0 < away < least or least == 0 else least
    return max(least, EPSILON * abs(at) + TINY)


@loop
def remember(
    x: Floats, at: Float, delta: Float, j: int, edges: Floats, counts: Ints, sums: Doubles,
    values: Floats,
) -> None:  # fmt: skip
    """Begin anew from a root and its column."""
    guess = HALF * (edges[HIGH, j] - edges[LOW, j])
    if guess <= 0:
        guess = delta / FOUR if delta > 0 else nearest(x, at)
    width = width_around(x, at, delta, guess)
    low, high = at - width, at + width
    edges[LOW, j], edges[HIGH, j] = low, high
    under, first, last, over = low - delta, high - delta, low + delta, high + delta
    edges[UNDER, j], edges[FROM, j], edges[UP_TO, j], edges[OVER, j] = under, first, last, over
    above, below, listed, springs, total, largest = 0, 0, 0, 0.0, 0.0, ZERO
    for k in range(len(x)):
        total += np.float64(x[k])
        largest = max(largest, abs(x[k]))
        if x[k] >= over:
            above += 1
        elif x[k] <= under:
            below += 1
        elif (x[k] >= first) & (x[k] <= last):
            springs += np.float64(x[k])
        else:
            if listed < len(values):
                values[listed] = x[k]
            listed += 1
    counts[ABOVE, j], counts[BELOW, j] = above, below
    counts[LISTED, j] = listed if width > 0 and listed <= len(values) else -1
    sums[SPRINGS, j], sums[ALL, j], sums[LARGEST, j] = springs, total, largest


@inlined
def put_back(
    w_local: Floats, rows: Ints, before: Floats, column: int, begin: int, moved: Ints,
    edges: Floats, counts: Ints, sums: Doubles, values: Floats,
) -> None:  # fmt: skip
    """Count the rows that changed as they are now, in the columns from ``begin`` on."""
    for i in range(len(rows)):
        now, was = w_local[rows[i], column + begin :], before[i, begin:]
        if recount(now, was, edges, counts, sums, moved, begin) == 0:
            continue
        for j in range(len(moved)):
            listed = counts[LISTED, begin + j]
            if moved[j] > 0 and listed >= 0:
                left = relist(values[begin + j], listed, moved[j], now[j], was[j])
                counts[LISTED, begin + j] = left
