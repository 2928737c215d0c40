"""Order statistics of a few rows of W, by the sorting network of ``aggregation/network.py``."""

import numpy as np

from fedplus.aggregation.native.loop import Floats, Ints, in_threads, loop, loop_in_threads, piece

WIDTH = 128
"""Columns that go through the network together."""


@loop
def some_ranked(
    w_local: Floats, rows: Ints, network: Ints, ranks: Ints, column: int, begin: int, end: int,
    found: Floats,
) -> None:  # fmt: skip
    """The columns from ``begin`` to ``end``, of those from ``column`` on."""
    room = np.zeros((len(rows), WIDTH), np.float32)
    for first in range(begin, end, WIDTH):
        last = min(first + WIDTH, end)
        width = last - first
        for i in range(len(rows)):
            row, into = w_local[rows[i], column + first : column + last], room[i]
            for j in range(width):
                into[j] = row[j]
        for c in range(len(network)):
            low, high = room[network[c, 0]], room[network[c, 1]]
            for j in range(WIDTH):
                x, y = low[j], high[j]
                low[j], high[j] = x if x < y else y, y if x < y else x
        for i in range(len(ranks)):
            row, into = room[ranks[i]], found[i, first:last]
            for j in range(width):
                into[j] = row[j]


@loop_in_threads
def ranked(
    w_local: Floats, rows: Ints, network: Ints, ranks: Ints, column: int, threads: int,
    found: Floats,
) -> None:  # fmt: skip
    """Of these rows, the entries of each rank, in as many columns as ``found`` has.

    ``network``: two places among the rows, of which the first gets the lower entry, and so on.
    """
    for t in in_threads(threads):
        begin, end = piece(found.shape[1], t, threads)
        some_ranked(w_local, rows, network, ranks, column, begin, end, found)
