"""A geometric median of a W of which few rows changed, as one loop: ``aggregation/pulled.py``'s."""

from typing import Any

import numpy as np

from fedplus.aggregation.native.coarse import look_in_threads, renew
from fedplus.aggregation.native.layout import (
    CONVERGED,
    ENDED,
    IMAGE,
    LEFT,
    MODELS,
    NUMBERS,
    SLOPE,
    STEP,
    TURNS,
    W,
)
from fedplus.aggregation.native.loop import (
    EPSILON,
    ONE,
    TINY,
    ZERO,
    Bytes,
    Float,
    Floats,
    Ints,
    loop,
    put,
)
from fedplus.aggregation.native.turns import begin, take_turn
from fedplus.aggregation.pulled import MOST_YIELDING, NOISE


@loop
def expected(
    change: Floats, ahead: Floats, slope: Float, along: Floats, yields: Float, move: Floats,
    w: Floats,
) -> None:  # fmt: skip
    """How far a change of the pulls leads if all directions were alike, and the w it leads to."""
    over, product = ONE / slope if slope > 0 else ZERO, ZERO
    for j in range(len(move)):
        move[j] = over * change[j]
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
    w_local: Floats, rows: Ints, before: Floats, delta: Float, threads: int, w: Floats, ahead: Floats,
    slope: Any, along: Floats, yields: Any, told: Floats, at: Floats, r: Floats, pull: Floats,
    centre: Floats, entries: Bytes, units: Floats,
) -> tuple[int, Float, bool]:  # fmt: skip
    """Write the minimiser to ``w``, and to the memory: the turns, ‖·‖₂ of the next step, and if it is.

    The memory is ``Pulled``'s, its numbers as arrays without axes; where it knows nothing,
    ``ahead`` is the last median.
    """
    n, d = w_local.shape
    change, move, was, known = np.empty_like(w), np.empty_like(w), ahead.copy(), slope[()]
    models, numbers = np.empty((MODELS, d), np.float32), np.empty(NUMBERS, np.float32)
    r_now, sums = np.empty(n, np.float32), np.empty((threads, d), np.float32)
    renew(
        w_local, rows, before, delta, 0, at, ahead, told, r, pull, centre, entries, units, change
    )  # fmt: skip
    expected(change, ahead, known, along, yields[()], move, models[W])
    begin(told, delta, at, centre, models, numbers)
    while numbers[ENDED] == 0:
        look_in_threads(
            w_local, entries, units[0], r, numbers, models[STEP], models[W], threads, 0, r_now, sums
        )  # fmt: skip
        take_turn(r_now, sums, 0, told, at, r, pull, centre, units, models, numbers)
    put(models[W], w)
    put(models[IMAGE], ahead)
    slope[()] = numbers[SLOPE]
    if known > 0:
        yields[()] = learned(was, move, w, ahead, along, yields[()])
    return int(numbers[TURNS]), numbers[LEFT], numbers[CONVERGED] > 0
