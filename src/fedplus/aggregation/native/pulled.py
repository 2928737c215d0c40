"""A geometric median of a W of which few rows changed, as one loop: ``aggregation/pulled.py``'s."""

from typing import Any

import numpy as np

from fedplus.aggregation.native.geometric_median import geometric_median
from fedplus.aggregation.native.loop import (
    EPSILON,
    ONE,
    TINY,
    ZERO,
    Float,
    Floats,
    Ints,
    in_threads,
    loop,
    loop_in_threads,
    piece,
)
from fedplus.aggregation.native.rows import distance
from fedplus.aggregation.pulled import MOST_YIELDING, NOISE


@loop_in_threads
def change_of_pulls(
    w_local: Floats, rows: Ints, before: Floats, delta: Float, w: Floats, sums: Floats
) -> None:
    """Σ (w_k − w) / max(‖w_k − w‖, δ) over some rows, less the same of what they were before.

    A thread adds up each row of ``sums``.
    """
    for t in in_threads(len(sums)):
        begin, end = piece(len(rows), t, len(sums))
        total = sums[t]
        for j in range(len(total)):
            total[j] = ZERO
        for i in range(begin, end):
            now, was = w_local[rows[i]], before[i]
            p, q = ONE / max(distance(now, w), delta), ONE / max(distance(was, w), delta)
            for j in range(len(total)):
                total[j] += p * (now[j] - w[j]) - q * (was[j] - w[j])


@loop
def expected(
    pulls: Floats, ahead: Floats, slope: Float, along: Floats, yields: Float, move: Floats,
    w: Floats,
) -> None:  # fmt: skip
    """How far changes of the pulls lead if all directions were alike, and the w they lead to."""
    over = ONE / slope if slope > 0 else ZERO
    for j in range(len(move)):
        move[j] = over * pulls[0, j]
    for t in range(1, len(pulls)):
        for j in range(len(move)):
            move[j] += over * pulls[t, j]
    product = ZERO
    for j in range(len(move)):
        product += along[j] * move[j]
    further = product * yields / (ONE - yields)
    for j in range(len(w)):
        w[j] = ahead[j] + (move[j] + further * along[j])


@loop
def learned(
    before: Floats, move: Floats, w: Floats, ahead: Floats, along: Floats, yields: Float
) -> Float:
    """How w went beyond what was expected: the direction, if it tells one, and how much W yields."""
    square, size = ZERO, ZERO
    for j in range(len(w)):
        move[j] = ahead[j] - (before[j] + move[j])
        square += move[j] * move[j]
        size += w[j] * w[j]
    beyond = np.sqrt(square)
    if not beyond > NOISE * EPSILON * np.sqrt(size):
        return yields
    gone = ZERO
    for j in range(len(w)):
        gone += move[j] * (w[j] - before[j])
    found = beyond / max(gone / beyond, TINY)
    if not found < MOST_YIELDING:
        return yields
    for j in range(len(w)):
        along[j] = move[j] / beyond
    return np.float32(found)


@loop
def follow(
    w_local: Floats, rows: Ints, before: Floats, weights: Floats, delta: Float, threads: int,
    ahead: Floats, slope: Any, along: Floats, yields: Any, w: Floats,
) -> tuple[int, Float, bool]:  # fmt: skip
    """Write the minimiser to ``w``, and to the memory: the turns, ‖·‖₂ of the next step, and if it is.

    The memory is ``Pulled``'s, its numbers as arrays without axes; where it knows nothing,
    ``ahead`` is the last median.
    """
    was, move, known = ahead.copy(), np.empty_like(w), slope[()]
    pulls = np.empty((threads, len(w)), np.float32)
    change_of_pulls(w_local, rows, before, delta, ahead, pulls)
    expected(pulls, ahead, known, along, yields[()], move, w)
    turns, left, slope[()], done = geometric_median(w_local, weights, delta, 0, threads, w, ahead)
    if known > 0:
        yields[()] = learned(was, move, w, ahead, along, yields[()])
    return turns, left, done
