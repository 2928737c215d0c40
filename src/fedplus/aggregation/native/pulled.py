"""A geometric median of a W of which few rows changed: the loops of ``aggregation/pulled.py``."""

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
def set_out(
    w_local: Floats, rows: Ints, before: Floats, delta: Floats, ahead: Floats, slope: Floats,
    along: Floats, yields: Floats, at: Floats, part: Ints, told: Floats, r: Floats, pull: Floats,
    centre: Floats, entries: Bytes, units: Floats, move: Floats, models: Floats, numbers: Floats,
) -> None:  # fmt: skip
    """Bring the memory up to date, and begin the turns where the change of the pulls leads.

    ``move``: the way there, if all directions were alike.
    """
    renew(
        w_local, rows, before, delta[0], part[3], at, ahead, told, r, pull, centre, entries, units,
        move,
    )  # fmt: skip
    over, product = ONE / slope[0] if slope[0] > 0 else ZERO, ZERO
    for j in range(len(move)):
        move[j] *= over
        product += along[j] * move[j]
    w, further = models[W], product * yields[0] / (ONE - yields[0])
    for j in range(len(w)):
        w[j] = ahead[j] + (move[j] + further * along[j])
    begin(told, delta[0], at, centre, models, numbers)


@loop
def learn(
    before: Floats, known: Floats, w: Floats, ahead: Floats, along: Floats, yields: Floats,
    move: Floats,
) -> None:  # fmt: skip
    """How w went beyond what was expected: the direction, if it tells one, and how much W yields.

    ``before`` and ``known``: what ``ahead`` and the slope were. ``move`` becomes what was not expected.
    """
    square, size, gone = ZERO, ZERO, ZERO
    for j in range(len(w)):
        move[j] = ahead[j] - (before[j] + move[j])
        square += move[j] * move[j]
        size += w[j] * w[j]
        gone += move[j] * (w[j] - before[j])
    beyond = np.sqrt(square)
    if not (known[0] > 0 and beyond > NOISE * EPSILON * np.sqrt(size)):
        return
    found = beyond / max(gone / beyond, TINY)
    if found < MOST_YIELDING:
        yields[0] = found
        for j in range(len(w)):
            along[j] = move[j] / beyond


@loop
def follow(
    w_local: Floats, rows: Ints, before: Floats, delta: Floats, part: Ints, w: Floats, ahead: Floats,
    slope: Floats, along: Floats, yields: Floats, told: Floats, at: Floats, r: Floats, pull: Floats,
    centre: Floats, entries: Bytes, units: Floats,
) -> tuple[int, Float, bool]:  # fmt: skip
    """Put the minimiser into ``w``; returns the turns, ‖·‖₂ of the next step, and if it is one.

    The rest is ``Pulled``'s memory, written to; where it knows nothing, ``ahead`` is the last median.
    """
    n, d = w_local.shape
    move, was, known = np.empty_like(w), ahead.copy(), slope.copy()
    models, numbers = np.empty((MODELS, d), np.float32), np.empty(NUMBERS, np.float32)
    found = np.empty((part[2], n + d), np.float32)
    set_out(
        w_local, rows, before, delta, ahead, slope, along, yields, at, part, told, r, pull, centre,
        entries, units, move, models, numbers,
    )  # fmt: skip
    while numbers[ENDED] == 0:
        look_in_threads(w_local, entries, units, r, models, numbers, part, found)
        take_turn(found, centre, units, told, at, r, pull, models, numbers)
    put(models[W], w)
    put(models[IMAGE], ahead)
    slope[0] = numbers[SLOPE]
    learn(was, known, w, ahead, along, yields, move)
    return int(numbers[TURNS]), numbers[LEFT], numbers[CONVERGED] > 0
