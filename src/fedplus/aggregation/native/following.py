"""δ-coordinatewise medians of a W of which a few rows change: a coordinate remembers its neighbourhood.

G(w) = Σ_k clip(w_k − w, −δ, δ) is linear between two breakpoints w_k ± δ. A coordinate keeps an interval
around its root. For all w in it, most parties pull in full, or as springs: of these it knows how many
there are and the springs' sum. Parties that have a breakpoint within the interval are listed. A row that
changes is taken from there and put back elsewhere, and the root is found again among a few dozen numbers,
whatever N is. Where it leaves the interval, or the list is full, W is looked at again, a cache line of
columns at a time: the others on it cost little more.
"""

import numpy as np

from fedplus.aggregation.native.columns import copy_undone, extremes, with_room
from fedplus.aggregation.native.loop import (
    EPSILON,
    FOUR,
    HALF,
    INFINITY,
    TWO,
    ZERO,
    Doubles,
    Float,
    Floats,
    Ints,
    loop,
)
from fedplus.aggregation.native.soft_median import soft_median

LOW, HIGH, UNDER, FROM, UP_TO, OVER, AT = range(7)
"""An interval's ends; below the first of the next four, parties pull down in full; between the next two, as
springs; above the last, up in full; and the last root."""
ABOVE, BELOW, LISTED = range(3)
"""How many parties pull up in full, down in full, and are listed; −1 of the last: nothing is known."""
SPRINGS, ALL = range(2)
"""Sums: of those that pull as springs, and of all."""
FEWEST, MOST = 12, 40
"""Parties that a new interval should have, and may have, on its list."""
LINE, ABREAST = 16, 256
"""Columns on a cache line, and columns that are counted together."""
MOST_LOOKS = 24


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
        listed = np.int32(~(up | down | spring)) + 2 * np.int32(~(was_up | was_down | was_spring))
        moved[j] = listed
        some += listed
    return some


@loop
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
    values: Floats, edges: tuple[Float, Float], balance: float, springs: int, total: float,
    parties: int, delta: Float, at: Float,
) -> tuple[Float, float, bool]:  # fmt: skip
    """The root, G where it was looked for last, and whether it is in the interval ``edges``.

    ``balance``: G of those that are not listed, at 0; ``total``: Σ w_k.
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
            mean = Float(total / parties)
            found = min(max(mean, lower), upper)
            return found, pull, low < found < high
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
def on_list(x: Floats, low: Float, high: Float, delta: Float) -> int:
    """How many of these an interval would list."""
    under, first, last, over = low - delta, high - delta, low + delta, high + delta
    count = 0
    for k in range(len(x)):
        count += 0 if (x[k] >= over) | (x[k] <= under) | ((x[k] >= first) & (x[k] <= last)) else 1
    return count


@loop
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


@loop
def remember(
    x: Floats, at: Float, delta: Float, j: int, edges: Floats, counts: Ints, sums: Doubles,
    values: Floats,
) -> None:  # fmt: skip
    """Begin anew from a root and its column."""
    before = HALF * (edges[HIGH, j] - edges[LOW, j])
    width = width_around(x, at, delta, before if before > 0 else delta / FOUR)
    low, high = at - width, at + width
    edges[LOW, j], edges[HIGH, j] = low, high
    under, first, last, over = low - delta, high - delta, low + delta, high + delta
    edges[UNDER, j], edges[FROM, j], edges[UP_TO, j], edges[OVER, j] = under, first, last, over
    above, below, listed, springs, total = 0, 0, 0, 0.0, 0.0
    for k in range(len(x)):
        total += np.float64(x[k])
        if x[k] >= over:
            above += 1
        elif x[k] <= under:
            below += 1
        elif (x[k] >= first) & (x[k] <= last):
            springs += np.float64(x[k])
        elif listed < len(values):
            values[listed] = x[k]
            listed += 1
    counts[ABOVE, j], counts[BELOW, j] = above, below
    counts[LISTED, j] = listed if width > 0 else -1
    sums[SPRINGS, j], sums[ALL, j] = springs, total


@loop
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


@loop
def follow(
    w_local: Floats, rows: Ints, before: Floats, delta_: Floats, part: Ints,
    edges: Floats, counts: Ints, sums: Doubles, values: Floats,
    w: Floats, pull: Floats, passes: Ints, done: Ints,
) -> None:  # fmt: skip
    """δ-medians of a part's columns; ``edges`` and so on are what is remembered, of all columns.

    Results count from 0. ``passes``: those of columns that were looked at again.
    """
    n, begin, end, column, delta = len(w_local), part[0], part[1], part[3], delta_[0]
    weights = np.ones(n, np.float32)
    a, all_weights = with_room(weights), extremes(weights)
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
                if listed >= 0:
                    balance = sums[SPRINGS, j] + np.float64(delta) * (above - below)
                    w[i], strength, found = root(
                        values[j, :listed], (edges[LOW, j], edges[HIGH, j]), balance,
                        n - above - below - listed, sums[ALL, j], n, delta, edges[AT, j],
                    )  # fmt: skip
                    pull[i], done[i] = strength, found
                    if found:
                        edges[AT, j] = w[i]
                lost += 1 - done[i]
            if lost == 0:
                continue
            count = copy_undone(entries, column + line, none_done[: stop - line], which, together)
            for c in range(count):
                x, i = together[c].view(np.float32), line + c - begin
                w[i], pull[i], passes[i], done[i] = soft_median(
                    x, keys, a, all_weights, delta, edges[AT, line + c], delta / LINE
                )
                edges[AT, line + c] = w[i]
                remember(x[:n], w[i], delta, line + c, edges, counts, sums, values[line + c])
