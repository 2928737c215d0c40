"""Near the geometric median of a few parties, from their products: one look at W for many turns.

w = Σ p_k w_k lies among the parties. How far each is from it, and how far a turn moves it, their
products (w_k − c)·(w_l − c) tell, for a party c near most others. Many parties have too many products.
"""

import numpy as np

from fedplus.aggregation.native.loop import (
    INFINITY,
    ZERO,
    Doubles,
    Float,
    Floats,
    Index,
    Ints,
    clear,
    in_threads,
    inlined,
    loop,
    loop_in_threads,
    piece,
)
from fedplus.aggregation.native.rows import distance, put_sum, put_sum_in_threads

BLOCK = 512
"""Columns whose differences stay in the cache closest to a core."""
STRETCH = 32
"""Columns, side by side, of a look at a few of them."""
LARGEST = 1e38
"""Products from which on 32 bits do not hold them."""
MOST_TURNS = 40
SHORT = 1e-7
"""A step that is no longer, in typical distances, is none."""


@inlined
def middle(x: Floats) -> Float:
    """Of a few numbers, the larger of two. Numba takes a second to compile a sort."""
    for i in range(len(x)):
        below, up_to = 0, 0
        for j in range(len(x)):
            below += 1 if x[j] < x[i] else 0
            up_to += 1 if x[j] <= x[i] else 0
        if below <= len(x) // 2 < up_to:
            found: Float = x[i]
            return found
    return INFINITY


@loop
def central(w_local: Floats, column: int, size: int) -> int:
    """The party from which half of the others are nearest, in a few columns of so many."""
    n, stretch = len(w_local), min(size, STRETCH)
    best, least, squares = 0, INFINITY, np.empty(len(w_local), np.float32)
    for k in range(n):
        clear(squares)
        for i in range(4):
            first = column + i * (size - stretch) // 3
            row = w_local[k, first : first + stretch]
            for other in range(n):
                squares[other] += distance(w_local[other, first : first + stretch], row) ** 2
        far = middle(squares)
        if far < least:
            best, least = k, far
    return best


@loop
def add_products(w_local: Floats, centre: int, begin: int, end: int, gram: Doubles) -> None:
    """Add the parties' products over some columns, seen from one of them."""
    n = len(w_local)
    away = np.empty((n, BLOCK), np.float32)
    for first in range(begin, end, BLOCK):
        last = min(first + BLOCK, end)
        middle = w_local[centre, first:last]
        for k in range(n):
            row, to = w_local[k, first:last], away[k, : last - first]
            for j in range(len(to)):
                to[j] = row[j] - middle[j]
        for k in range(n):
            for other in range(k + 1):
                x, y, total = away[k, : last - first], away[other, : last - first], ZERO
                for j in range(len(x)):
                    total += x[j] * y[j]
                gram[k, other] += total


@loop
def product(gram: Doubles, p: Doubles, q: Doubles) -> float:
    """Of two points, given by the parties' shares in them."""
    total = 0.0
    for k in range(len(p)):
        for other in range(len(q)):
            total += p[k] * gram[k, other] * q[other]
    return total


@loop
def shares_of_median(gram: Doubles, weights: Floats, delta: Float, p: Doubles) -> None:
    """The parties' shares in the δ-geometric median, by the turns of ``aggregation/reweighted.py``."""
    n = len(p)
    image, before, image_before = np.empty(n), np.empty(n), np.empty(n)
    to_all, change, weight = np.empty(n), np.empty(n), 0.0
    for k in range(n):
        image[k], before[k], image_before[k] = p[k], p[k], p[k]
        weight += weights[k]
    for turn in range(MOST_TURNS):
        square = 0.0
        for k in range(n):
            to_all[k] = 0.0
            for other in range(n):
                to_all[k] += gram[k, other] * p[other]
            square += p[k] * to_all[k]
        slope = 0.0
        for k in range(n):
            r = np.sqrt(max(gram[k, k] - 2 * to_all[k] + square, 0.0))
            image[k] = weights[k] / max(r, np.float64(delta))
            slope += image[k]
        for k in range(n):
            image[k] /= slope
            to_all[k] = image[k] - p[k]
            change[k] = to_all[k] - (image_before[k] - before[k])
        typical = weight / slope
        if not product(gram, to_all, to_all) > (SHORT * typical) ** 2:
            break
        size = product(gram, change, change)
        back = product(gram, change, to_all) / size if turn > 0 and size > 0 else 0.0
        for k in range(n):
            onwards = image[k] - back * (image[k] - image_before[k])
            before[k], image_before[k], p[k] = p[k], image[k], onwards
    for k in range(n):
        p[k] = image[k]


@loop
def shares_by_products(grams: Doubles, weights: Floats, delta: Float) -> Floats:
    """The same from the products below the diagonal, of which each of ``grams`` has a part."""
    gram = grams[0]
    n = len(gram)
    each, p, shares = np.empty(n, np.float32), np.empty(n), np.empty(n, np.float32)
    for k in range(n):
        for other in range(k + 1):
            for t in range(1, len(grams)):
                gram[k, other] += grams[t, k, other]
        each[k] = (
            weights[k] if gram[k, k] < LARGEST else ZERO
        )  # So far away that it does not count.
        p[k] = 1.0 / n
    for k in range(n):
        for other in range(k + 1):
            if each[k] == ZERO or each[other] == ZERO:
                gram[k, other] = 0.0
            gram[other, k] = gram[k, other]
    shares_of_median(gram, each, delta, p)
    for k in range(n):
        shares[k] = p[k]
    return shares


@loop
def near_median(w_local: Floats, weights: Floats, delta: Floats, part: Ints, w: Floats) -> None:
    """Put w where the parties' products put the δ-geometric median."""
    n, d, column = len(w_local), len(w), Index(part[3])
    grams = np.zeros((1, n, n), np.float64)
    add_products(w_local, central(w_local, column, d), column, column + d, grams[0])
    put_sum(w_local, shares_by_products(grams, weights, delta[0]), column, w)


@loop_in_threads
def near_median_in_threads(
    w_local: Floats, weights: Floats, delta: Floats, part: Ints, w: Floats
) -> None:
    """The same."""
    n, d, threads, column = len(w_local), len(w), Index(part[2]), Index(part[3])
    centre = central(w_local, column, d)
    grams = np.zeros((threads, n, n), np.float64)
    for t in in_threads(threads):
        begin, end = piece(d, t, threads)
        add_products(w_local, centre, column + begin, column + end, grams[t])
    p = shares_by_products(grams, weights, delta[0])
    put_sum_in_threads(w_local, p, column, threads, w)
