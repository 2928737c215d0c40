"""Loops over the rows of W, four at a time: sums with weights, and distances on the way.

A part of W is whole numbers: from which row on, up to which, in how many threads, and from which column
on. There are as many columns as ``total`` has entries.
"""

import numpy as np

from fedplus.aggregation.native.loop import (
    ZERO,
    Float,
    Floats,
    Index,
    Ints,
    clear,
    in_threads,
    loop,
    loop_in_threads,
    loop_of_any,
    piece,
)

WIDTH = 4096
"""Columns of a sum that stay in the cache closest to a core while rows are added to them."""


@loop
def add(w_local: Floats, p: Floats, first: int, last: int, column: int, total: Floats) -> None:
    """Add Σ p_k w_k to ``total``, over the rows from ``first`` to ``last``."""
    for at in range(0, len(total), WIDTH):
        part = total[at : at + WIDTH]
        begin, end = column + at, column + at + len(part)
        k = first
        while k + 4 <= last:
            row, second = w_local[k, begin:end], w_local[k + 1, begin:end]
            third, fourth = w_local[k + 2, begin:end], w_local[k + 3, begin:end]
            a, b, c, e = p[k], p[k + 1], p[k + 2], p[k + 3]
            for j in range(len(part)):
                part[j] += (a * row[j] + b * second[j]) + (c * third[j] + e * fourth[j])
            k += 4
        while k < last:
            row, a = w_local[k, begin:end], p[k]
            for j in range(len(part)):
                part[j] += a * row[j]
            k += 1


@loop_of_any
def distance(row: Floats, w: Floats) -> Float:
    """‖w_k − w‖₂, which is not finite if anything is not."""
    square = ZERO
    for j in range(len(row)):
        x = row[j] - w[j]
        square += x * x
    length: Float = np.sqrt(square)
    return length


@loop_of_any
def distances_of_four(w_local: Floats, k: int, column: int, w: Floats, r: Floats) -> None:
    """The same of four rows from k on: what is read of w serves them all."""
    end = column + len(w)
    row, second = w_local[k, column:end], w_local[k + 1, column:end]
    third, fourth = w_local[k + 2, column:end], w_local[k + 3, column:end]
    a, b, c, e = ZERO, ZERO, ZERO, ZERO
    for j in range(len(w)):
        at = w[j]
        x, y, z, u = row[j] - at, second[j] - at, third[j] - at, fourth[j] - at
        a += x * x
        b += y * y
        c += z * z
        e += u * u
    r[k], r[k + 1], r[k + 2], r[k + 3] = np.sqrt(a), np.sqrt(b), np.sqrt(c), np.sqrt(e)


@loop
def add_over_distance(
    w_local: Floats, weights: Floats, delta: Float, w: Floats, first: int, last: int,
    column: int, r: Floats, total: Floats,
) -> None:  # fmt: skip
    """Distances r_k from w, and Σ a_k δ / max(r_k, δ) w_k added to ``total``, of the rows given.

    Rows are added while the cache still has them.
    """
    q = np.empty_like(weights)
    for begin in range(first, last, 4):
        end = min(begin + 4, last)
        if end == begin + 4:
            distances_of_four(w_local, begin, column, w, r)
        else:
            for k in range(begin, end):
                r[k] = distance(w_local[k, column : column + len(w)], w)
        for k in range(begin, end):
            q[k] = weights[k] * (delta / max(r[k], delta))  # 1 within δ, without rounding.
        add(w_local, q, begin, end, column, total)


@loop
def put_sum(w_local: Floats, p: Floats, column: int, total: Floats) -> None:
    """Σ p_k w_k of all rows, in as many columns as ``total`` has entries."""
    clear(total)
    add(w_local, p, Index(0), len(p), Index(column), total)


@loop_in_threads
def put_sum_in_threads(
    w_local: Floats, p: Floats, column: int, threads: int, total: Floats
) -> None:
    """The same."""
    for t in in_threads(threads):
        begin, end = piece(len(total), t, threads)
        put_sum(w_local, p, column + begin, total[begin:end])


@loop
def product(w_local: Floats, p: Floats, part: Ints, total: Floats) -> None:
    """Σ p_k w_k over the rows of the part."""
    clear(total)
    add(w_local, p, Index(part[0]), Index(part[1]), Index(part[3]), total)


@loop
def reweigh(
    w_local: Floats, weights: Floats, delta: Floats, w: Floats, part: Ints, r: Floats, total: Floats
) -> None:
    """Distances r_k from w, 0 beyond the part, and Σ a_k δ / max(r_k, δ) w_k over its rows."""
    clear(r)
    clear(total)
    first, last, column = Index(part[0]), Index(part[1]), Index(part[3])
    add_over_distance(w_local, weights, delta[0], w, first, last, column, r, total)


@loop_in_threads
def product_in_threads(w_local: Floats, p: Floats, part: Ints, total: Floats) -> None:
    """The same as ``product``."""
    threads = Index(part[2])
    for t in in_threads(threads):
        begin, end = piece(len(total), t, threads)
        some = total[begin:end]
        clear(some)
        add(w_local, p, Index(part[0]), Index(part[1]), Index(part[3]) + begin, some)


@loop_in_threads
def reweigh_in_threads(
    w_local: Floats, weights: Floats, delta: Floats, w: Floats, part: Ints, r: Floats, total: Floats
) -> None:
    """The same as ``reweigh``."""
    first, n, threads = Index(part[0]), Index(part[1] - part[0]), Index(part[2])
    sums = np.zeros((threads, len(total)), w_local.dtype)
    clear(r)
    for t in in_threads(threads):
        begin, end = piece(n, t, threads)
        add_over_distance(
            w_local, weights, delta[0], w, first + begin, first + end, Index(part[3]), r, sums[t]
        )
    for j in range(len(total)):
        total[j] = ZERO
        for t in range(threads):
            total[j] += sums[t, j]
