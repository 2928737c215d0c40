"""A geometric median as one loop: the turns of ``aggregation/reweighted.py``, shared by threads."""

import numpy as np

from fedplus.aggregation.native.certificate import is_beside_party, is_lowest
from fedplus.aggregation.native.finite import are_finite
from fedplus.aggregation.native.loop import (
    HALF,
    INFINITY,
    ONE,
    TINY,
    ZERO,
    Float,
    Floats,
    Index,
    clear,
    in_threads,
    loop,
    loop_in_threads,
    piece,
)
from fedplus.aggregation.native.rows import add, add_over_distance, distance
from fedplus.aggregation.reweighted import MOST_TURNS

WIDE = 2**16
"""Columns from which on threads share what is done with models alone."""
STRETCH = 64
"""Columns, side by side, that a look at a few of them takes."""


@loop
def go_on(w: Floats, image: Floats, w_before: Floats, image_before: Floats, back: Float) -> None:
    """The next w, so much of the way back from the image to the one before; and what is before then."""
    for j in range(len(w)):
        now = image[j] - back * (image[j] - image_before[j])
        w_before[j], image_before[j], w[j] = w[j], image[j], now


@loop
def finish(
    sums: Floats, share: Float, begin: int, end: int, w: Floats, w_before: Floats,
    image_before: Floats, squares: Floats,
) -> None:  # fmt: skip
    """The image in some columns, this share of all threads' sums, in place of the first; and squares.

    ``squares``: ‖image − w‖², ‖w‖², and of the residual's change its product with the residual, and
    its square.
    """
    image = sums[0, begin:end]
    for t in range(1, len(sums)):
        more = sums[t, begin:end]
        for j in range(len(more)):
            image[j] += more[j]
    for j in range(len(w)):
        image[j] *= share
    left, size, along, change = ZERO, ZERO, ZERO, ZERO
    for j in range(len(w)):
        residual = image[j] - w[j]
        by = residual - (image_before[j] - w_before[j])
        left += residual * residual
        size += w[j] * w[j]
        along += by * residual
        change += by * by
    squares[0], squares[1], squares[2], squares[3] = left, size, along, change


@loop
def start_from(w_local: Floats, weights: Floats, column: int, w: Floats) -> None:
    """Keep w, or take the mean where Σ a_k‖w_k − w‖ is lower there.

    A few stretches of the columns are enough to tell (``aggregation/start.py``).
    """
    n, d = len(w_local), len(w)
    width, p = min(d, STRETCH), weights / weights.sum()
    mean, squares = np.empty(width, np.float32), np.zeros((2, n), np.float32)
    for i in range(4):
        begin = i * (d - width) // 3
        first = column + begin
        clear(mean)
        add(w_local, p, Index(0), n, first, mean)
        for k in range(n):
            row = w_local[k, first : first + width]
            squares[0, k] += distance(row, w[begin : begin + width]) ** 2
            squares[1, k] += distance(row, mean) ** 2
    higher = ZERO
    for k in range(n):
        # Differences: beside the distances of far outliers, those of all others are lost in a sum.
        higher += weights[k] * (np.sqrt(squares[1, k]) - np.sqrt(squares[0, k]))
    if higher < 0:
        clear(w)
        add(w_local, p, Index(0), n, column, w)


@loop_in_threads
def geometric_median(
    w_local: Floats, weights: Floats, delta: Float, column: int, threads: int, w: Floats
) -> tuple[int, Float, Float, bool]:
    """Move ``w`` to the minimiser: the turns, ‖·‖₂ of the next step, the slope, and if it is.

    If not, W is not finite, or the turns are not the right ones, as beside a party.
    """
    n, d = len(w_local), len(w)
    sums, r = np.empty((threads, d), np.float32), np.empty(n, np.float32)
    image = sums[0]  # Used up before sums are needed again.
    w_before, image_before = w, image  # In the first turn nothing has changed.
    left, slope = INFINITY, INFINITY
    pieces = threads if d >= WIDE else 1
    squares = np.empty((pieces, 4), np.float32)
    for turn in range(1, MOST_TURNS + 1):
        for t in in_threads(threads):
            begin, end = piece(n, t, threads)
            total = sums[t]
            clear(total)
            add_over_distance(w_local, weights, delta, w, begin, end, column, r, total)
        slope, last = ZERO, left
        for k in range(n):
            slope += weights[k] * (delta / max(r[k], delta))
        share = ONE / slope
        if pieces == 1:
            finish(sums, share, Index(0), d, w, w_before, image_before, squares[0])
        else:
            for t in in_threads(pieces):
                a, b = piece(d, t, pieces)
                finish(
                    sums, share, a, b, w[a:b], w_before[a:b], image_before[a:b], squares[t]
                )  # fmt: skip
        slope /= delta
        for t in range(1, pieces):
            for i in range(4):
                squares[0, i] += squares[t, i]
        left, size = np.sqrt(squares[0, 0]), np.sqrt(squares[0, 1])
        back = squares[0, 2] / max(squares[0, 3], TINY) if turn > 1 else ZERO
        if not are_finite(r) or is_beside_party(weights, delta, r, size):
            return turn, left, slope, False
        if is_lowest(weights, delta, r, size, slope, left):
            return turn, left, slope, True
        if not left <= HALF * last:
            return turn, left, slope, False
        if turn == 1:  # Often the only one: memory that is not asked for costs nothing.
            w_before, image_before = np.empty_like(w), image.copy()
        if pieces == 1:
            go_on(w, image, w_before, image_before, back)
        else:
            for t in in_threads(pieces):
                a, b = piece(d, t, pieces)
                go_on(w[a:b], image[a:b], w_before[a:b], image_before[a:b], back)
    return MOST_TURNS, left, slope, False
