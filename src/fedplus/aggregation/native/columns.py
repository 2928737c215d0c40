"""Columns of W, each copied into one piece, so that a coordinate is solved in vector registers."""

import numpy as np

from fedplus.aggregation.native.loop import INFINITY, ZERO, Float, Floats, Ints, loop

TOGETHER = 64
"""Columns that are copied at a time: whole cache lines of every row."""
LANES = 16
"""Numbers of a vector register."""


@loop
def with_room(weights: Floats) -> Floats:
    """The weights, and zeros up to whole registers: an odd number, lest columns compete for a cache."""
    registers = (len(weights) + LANES - 1) // LANES
    made = np.zeros((registers + 1 - registers % 2) * LANES, weights.dtype)
    made[: len(weights)] = weights
    return made


@loop
def copy(w_local: Ints, begin: int, end: int, x: Ints) -> None:
    """Columns of W (whichever 32 bits its entries are) as rows of x; the last party fills them up."""
    n = len(w_local)
    for k in range(n):
        row = w_local[k, begin:end]
        for j in range(len(row)):
            x[j, k] = row[j]
    for j in range(end - begin):
        x[j, n:] = x[j, n - 1]


@loop
def extremes(weights: Floats) -> tuple[Float, Float, Float]:
    """The sum of all weights, the least one that is not 0, and the largest."""
    total, least, largest = ZERO, INFINITY, ZERO
    for a in weights:
        total += a
        largest = max(largest, a)
        if a > 0:
            least = min(least, a)
    return total, least, largest
