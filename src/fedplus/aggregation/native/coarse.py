"""A coarse W, a byte an entry, for ``aggregation/coarse.py``: how it is made, and passes over it."""

import numpy as np

from fedplus.aggregation.native.finite import largest
from fedplus.aggregation.native.layout import DELTA, EXACT, KNOWN, LOST, SHIFT, SQUARE, STEP, W
from fedplus.aggregation.native.loop import (
    EPSILON,
    ONE,
    TINY,
    TWO,
    ZERO,
    Bytes,
    Float,
    Floats,
    Index,
    Ints,
    clear,
    in_threads,
    inlined,
    loop,
    loop_in_threads,
    loop_of_any,
    piece,
    put,
)
from fedplus.aggregation.native.rows import add_over_distance, distance

NOTHING, PULLS, ALL = (np.float32(x) for x in range(3))
"""What may be known; with ``PULLS``, not the bytes."""
MOST = np.float32(126)
WIDTH = 4096
"""Columns that are rounded with one stretch of ``DITHER``."""
DITHER = np.random.default_rng(0).random(2 * WIDTH, np.float32)
"""What is rounded up, and what down: of rows that are alike not the same entries."""


@inlined
def put_coarse(row: Floats, centre: Floats, k: int, to: Bytes) -> tuple[Float, Float]:
    """Put row k, less the centre, in whole units: the unit, and how far off that is, ‖·‖₂."""
    x, one = np.empty(len(centre), np.float32), np.empty(1, np.float32)
    for j in range(len(x)):
        x[j] = row[j] - centre[j]
    one.view(np.int32)[0] = largest(x.view(np.int32))
    over, square = MOST / max(one[0], MOST * TINY), ZERO
    for begin in range(0, len(x), WIDTH):
        shift = (97 * k + 61 * (begin // WIDTH)) % WIDTH
        stretch, dither = to[begin : begin + WIDTH], DITHER[shift : shift + WIDTH]
        these = x[begin : begin + WIDTH]
        for j in range(len(stretch)):
            exact = over * these[j]
            whole = np.floor(exact + dither[j])
            stretch[j] = np.int8(whole)
            square += (exact - whole) * (exact - whole)
    return ONE / over, np.sqrt(square) / over


@loop_of_any
def three_distances(
    now: Floats, was: Floats, at: Floats, ahead: Floats
) -> tuple[Float, Float, Float]:
    """How far a row is from the point, and from ahead; and how far from ahead it was."""
    here, there, before = ZERO, ZERO, ZERO
    for j in range(len(at)):
        x, y, z = now[j] - at[j], now[j] - ahead[j], was[j] - ahead[j]
        here += x * x
        there += y * y
        before += z * z
    return np.sqrt(here), np.sqrt(there), np.sqrt(before)


@inlined
def add_pulls(
    now: Floats, was: Floats, p: tuple[Float, Float], q: tuple[Float, Float], at: Floats,
    ahead: Floats, pull: Floats, change: Floats,
) -> None:  # fmt: skip
    """Add p (w_k − w), less q times the same of what w_k was before, at each of two places."""
    p_at, p_ahead, q_at, q_ahead = p[0], p[1], q[0], q[1]
    for j in range(len(at)):
        x, y = now[j], was[j]
        pull[j] += p_at * (x - at[j]) - q_at * (y - at[j])
        change[j] += p_ahead * (x - ahead[j]) - q_ahead * (y - ahead[j])


@inlined
def renew(
    w_local: Floats, rows: Ints, before: Floats, delta: Float, column: int, at: Floats,
    ahead: Floats, told: Floats, r: Floats, pull: Floats, centre: Floats, entries: Bytes,
    units: Floats, change: Floats,
) -> None:  # fmt: skip
    """Bring what is remembered up to date; ``change``: of the sum of the pulls at ``ahead``."""
    clear(change)
    for i in range(len(rows)):
        k, was = rows[i], before[i]
        now = w_local[k, column : column + len(at)]
        here, there, then = three_distances(now, was, at, ahead)
        p = ONE / max(here, delta), ONE / max(there, delta)
        q = ONE / max(r[k], delta), ONE / max(then, delta)
        r[k] = here
        add_pulls(now, was, p, q, at, ahead, pull, change)
    told[LOST] += EPSILON * np.sqrt(np.float32(2 * len(rows)))
    if told[KNOWN] == NOTHING:
        return
    slope = ZERO
    for k in range(len(r)):
        slope += ONE / max(r[k], delta)
    every = told[KNOWN] == PULLS or distance(at, centre) > len(r) / slope
    if every:
        put(at, centre)
    for i in range(len(entries) if every else len(rows)):
        k = i if every else rows[i]
        row = w_local[k, column : column + len(at)]
        units[0, k], units[1, k] = put_coarse(row, centre, k, entries[k])
    told[KNOWN] = ALL


@inlined
def products(entries: Bytes, k: int, size: int, step: Floats, t: Floats) -> None:
    """Of a row, or of four, from k on, their products with a step."""
    row, a = entries[k], ZERO
    if size == 1:
        for j in range(len(step)):
            a += step[j] * np.float32(row[j])
        t[0] = a
        return
    second, third, fourth = entries[k + 1], entries[k + 2], entries[k + 3]
    b, c, e = ZERO, ZERO, ZERO
    for j in range(len(step)):
        x = step[j]
        a += x * np.float32(row[j])
        b += x * np.float32(second[j])
        c += x * np.float32(third[j])
        e += x * np.float32(fourth[j])
    t[0], t[1], t[2], t[3] = a, b, c, e


@inlined
def add(entries: Bytes, k: int, size: int, p: Floats, total: Floats) -> None:
    """Add a row, or four, from k on, each times a number."""
    row, a = entries[k], p[0]
    if size == 1:
        for j in range(len(total)):
            total[j] += a * np.float32(row[j])
        return
    second, third, fourth = entries[k + 1], entries[k + 2], entries[k + 3]
    b, c, e = p[1], p[2], p[3]
    for j in range(len(total)):
        total[j] += (a * np.float32(row[j]) + b * np.float32(second[j])) + (
            c * np.float32(third[j]) + e * np.float32(fourth[j])
        )


@inlined
def look_at_rows(
    w_local: Floats, entries: Bytes, units: Floats, before: Floats, models: Floats, numbers: Floats,
    first: int, last: int, column: int, r: Floats, total: Floats,
) -> None:  # fmt: skip
    """Distances from w of some rows, which were ``before`` away from the point, and a sum over them.

    Of the rows as they are, if ``EXACT``: Σ δ / max(r_k, δ) w_k. Else of coarse ones, times by how
    much more each counts than before.
    """
    delta, unit, step = numbers[DELTA], units[0], models[STEP]
    if numbers[EXACT] > 0:
        ones = np.ones(len(r), np.float32)
        add_over_distance(
            w_local, ones, delta, models[W], Index(first), Index(last), Index(column), r, total
        )
        return
    k, t = first, np.empty(4, np.float32)
    while k < last:
        size = 4 if k + 4 <= last else 1
        products(entries, k, size, step, t)
        for i in range(size):
            m = k + i
            along = unit[m] * t[i] + numbers[SHIFT]
            square = before[m] * before[m] - TWO * along + numbers[SQUARE]
            r[m] = np.sqrt(max(square, ZERO))
            t[i] = unit[m] * (ONE / max(r[m], delta) - ONE / max(before[m], delta))
        add(entries, k, size, t, total)
        k += size


@inlined
def look_at(
    w_local: Floats, entries: Bytes, units: Floats, before: Floats, models: Floats, numbers: Floats,
    first: int, last: int, column: int, found: Floats,
) -> None:  # fmt: skip
    """The same, as one row: the distances, of other rows 0, and then the sum."""
    clear(found)
    n = len(before)
    look_at_rows(
        w_local, entries, units, before, models, numbers, first, last, column, found[:n], found[n:]
    )  # fmt: skip


@loop
def look(
    w_local: Floats, entries: Bytes, units: Floats, before: Floats, models: Floats, numbers: Floats,
    part: Ints, found: Floats,
) -> None:  # fmt: skip
    """What is found at the part's rows, in the one row of ``found``."""
    look_at(
        w_local, entries, units, before, models, numbers, part[0], part[1], part[3], found[0]
    )  # fmt: skip


@loop_in_threads
def look_in_threads(
    w_local: Floats, entries: Bytes, units: Floats, before: Floats, models: Floats, numbers: Floats,
    part: Ints, found: Floats,
) -> None:  # fmt: skip
    """The same of all rows; each thread finds a row of ``found``."""
    threads, column = Index(part[2]), Index(part[3])
    for t in in_threads(threads):
        first, last = piece(len(before), t, threads)
        look_at(
            w_local, entries, units, before, models, numbers, first, last, column, found[t]
        )  # fmt: skip
