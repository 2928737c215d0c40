"""Columns of W: many abreast, or each copied into one piece to be solved in vector registers."""

import numpy as np

from fedplus.aggregation.native.loop import INFINITY, ZERO, Float, Floats, Ints, inlined, loop
from fedplus.aggregation.shares import CACHED

TOGETHER = 64
"""Columns that are copied at a time: whole cache lines of every row."""
NARROWEST, WIDEST = 512, 1024
"""Columns whose sums stay in the cache closest to a core. Fewer would be read in short pieces."""
FEW = 16
"""Of so many coordinates abreast one may be left to be solved by itself: another pass costs more."""
LANES = 16
"""Numbers of a vector register."""


@loop
def abreast(parties: int) -> int:
    """How many coordinates go together: whole cache lines of each row."""
    return min(max(CACHED // parties // 16 * 16, NARROWEST), WIDEST)


@inlined
def with_room(parties: int) -> Floats:
    """Zeros, one a party and up to whole registers: an odd number, lest columns compete for a cache."""
    registers = (parties + LANES - 1) // LANES
    return np.zeros((registers + 1 - registers % 2) * LANES, np.float32)


@inlined
def copy_undone(w_local: Ints, begin: int, done: Ints, which: Ints, x: Ints) -> int:
    """Columns of W (whichever 32 bits its entries are) as rows of x; the last party fills them up.

    Those from ``begin`` on that are not done: how many, and ``which``.
    """
    count, n = 0, len(w_local)
    for j in range(len(done)):
        if done[j] == 0:
            which[count] = j
            count += 1
    for k in range(n):
        row = w_local[k, begin:]
        for j in range(count):
            x[j, k] = row[which[j]]
    for j in range(count):
        for k in range(n, x.shape[1]):
            x[j, k] = x[j, n - 1]
    return count


@inlined
def extremes(weights: Floats) -> tuple[Float, Float, Float]:
    """The sum of all weights, the least one that is not 0, and the largest."""
    total, least, largest = ZERO, INFINITY, ZERO
    for a in weights:
        total += a
        largest = max(largest, a)
        if a > 0:
            least = min(least, a)
    return total, least, largest
