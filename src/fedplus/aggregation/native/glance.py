"""Where the search for a geometric median begins: a glance at a few columns tells how far parties are.

The distances in these columns, times the same number, are nearly those in all: what each party counts
for comes out a few percent wrong, and w, a mean over the parties, by less. A glance that tells nothing,
or the wrong thing, costs turns.
"""

import numpy as np

from fedplus.aggregation.native.loop import (
    HALF,
    INFINITY,
    TINY,
    ZERO,
    Floats,
    Index,
    loop,
    put,
)
from fedplus.aggregation.native.rows import distance, put_sum, put_sum_in_threads

PLACES, WIDTH = 16, 8
"""How many places of a model are looked at, and how many columns side by side."""
PARTIES = 5
"""To begin with, the most central of so many."""
TURNS = 3


@loop
def glance(w_local: Floats, column: int, size: int, models: Floats) -> None:
    """Copy the columns that are looked at, of so many."""
    width = models.shape[1] // PLACES
    for k in range(len(models)):
        for i in range(PLACES):
            first = column + i * (size - width) // (PLACES - 1)
            row, to = w_local[k, first : first + width], models[k, i * width : (i + 1) * width]
            for j in range(width):
                to[j] = row[j]


@loop
def distances(models: Floats, w: Floats, r: Floats) -> None:
    """‖w_k − w‖₂ of all."""
    for k in range(len(models)):
        r[k] = distance(models[k], w)


@loop
def put_central(models: Floats, w: Floats, r: Floats) -> None:
    """Put w at the party, of a few, from which half of the others are nearest."""
    n, least = len(models), INFINITY
    for i in range(PARTIES):
        party = models[i * (n - 1) // (PARTIES - 1)]
        distances(models, party, r)
        middle = np.sort(r)[n // 2]
        if middle < least or i == 0:
            least = middle
            put(party, w)


@loop
def shares_of_median(models: Floats, weights: Floats, p: Floats) -> None:
    """The parties' shares in the geometric median."""
    n, w, r = len(models), models[0].copy(), np.empty(len(models), np.float32)
    put_central(models, w, r)
    for turn in range(TURNS):
        if turn > 0:
            put_sum(models, p, Index(0), w)
        distances(models, w, r)
        near, total = max(HALF * np.sort(r)[n // 2], TINY), ZERO
        for k in range(n):
            p[k] = weights[k] / max(r[k], near)  # The party that w is at counts as others do.
            total += p[k]
        for k in range(n):
            p[k] /= total


@loop
def start_from_glance(
    w_local: Floats, weights: Floats, column: int, threads: int, w: Floats
) -> None:
    """Put w near the geometric median."""
    n, d = len(w_local), len(w)
    models, p = np.empty((n, PLACES * min(WIDTH, d)), np.float32), np.empty(n, np.float32)
    glance(w_local, column, d, models)
    shares_of_median(models, weights, p)
    put_sum_in_threads(w_local, p, column, threads, w)
