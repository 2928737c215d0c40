"""Turns of a geometric median with a coarse W, for ``aggregation/coarse.py``.

All that a turn decides is decided here: cores that are told the same go the same way.
"""

import numpy as np

from fedplus.aggregation.native.certificate import is_beside_party, is_low, is_short
from fedplus.aggregation.native.coarse import ALL, NOTHING, PULLS
from fedplus.aggregation.native.finite import are_finite
from fedplus.aggregation.native.geometric_median import go_on
from fedplus.aggregation.native.layout import (
    AFAR,
    CONVERGED,
    DELTA,
    ENDED,
    EXACT,
    IMAGE,
    IMAGE_BEFORE,
    KNOWN,
    LEFT,
    LEFT_BEFORE,
    LOST,
    SHIFT,
    SLOPE,
    SQUARE,
    STEP,
    TURNS,
    W_BEFORE,
    W,
)
from fedplus.aggregation.native.loop import (
    EPSILON,
    FOUR,
    HALF,
    INFINITY,
    ONE,
    TINY,
    TWO,
    ZERO,
    Float,
    Floats,
    clear,
    inlined,
    loop,
    put,
)
from fedplus.aggregation.reweighted import MOST_TURNS

SURE = np.float32(6)
"""Standard deviations of a sum of roundings, each of which goes up or down by chance.

As good as certain, unless somebody chooses models so that all are off in one direction.
"""


@inlined
def begin(
    told: Floats, delta: Float, at: Floats, centre: Floats, models: Floats, numbers: Floats
) -> None:
    """The first state, of a w that is in its place already."""
    clear(numbers)
    numbers[DELTA], numbers[LEFT], numbers[LEFT_BEFORE] = delta, INFINITY, INFINITY
    numbers[EXACT] = ONE if told[KNOWN] != ALL or told[AFAR] > 0 else ZERO
    for i in (IMAGE, W_BEFORE, IMAGE_BEFORE):
        put(models[W], models[i])
    set_step(at, centre, models, numbers)


@inlined
def set_step(at: Floats, centre: Floats, models: Floats, numbers: Floats) -> None:
    """From the point to w."""
    w, step, square, shift = models[W], models[STEP], ZERO, ZERO
    for j in range(len(w)):
        step[j] = w[j] - at[j]
        square += step[j] * step[j]
        shift += step[j] * (centre[j] - at[j])
    numbers[SQUARE], numbers[SHIFT] = square, shift


@inlined
def onwards(at: Floats, centre: Floats, models: Floats, numbers: Floats, secant: bool) -> None:
    """The next w: the image, or where the residual would be 0 if it were linear."""
    w, image, w_before, image_before = (
        models[W],
        models[IMAGE],
        models[W_BEFORE],
        models[IMAGE_BEFORE],
    )
    along, square = ZERO, ZERO
    for j in range(len(w)):
        residual = image[j] - w[j]
        by = residual - (image_before[j] - w_before[j])
        along += by * residual
        square += by * by
    back = along / max(square, TINY) if secant else ZERO
    go_on(w, image, w_before, image_before, back)
    set_step(at, centre, models, numbers)


@inlined
def roundings(delta: Float, before: Floats, r: Floats, units: Floats, step: Float) -> Float:
    """A bound on what those to bytes add to the pull at distances r, a step from the point."""
    square = ZERO
    for k in range(len(r)):
        p, q = ONE / max(r[k], delta), ONE / max(before[k], delta)
        far = p * before[k]
        of_p = p * (HALF * units[0, k] * step * p) + FOUR * EPSILON * far * far
        of_row = (p - q) * units[1, k]
        square += of_p * of_p + of_row * of_row
    bound: Float = SURE * np.sqrt(square)
    return bound


@inlined
def put_image(
    found: Floats, delta: Float, exact: bool, r_now: Floats, at: Floats, r: Floats, pull: Floats,
    centre: Floats, models: Floats,
) -> Float:  # fmt: skip
    """Where w leads, by what looks have found; and the slope Σ_k 1 / max(‖w_k − w‖, δ)."""
    w, image, step, n = models[W], models[IMAGE], models[STEP], len(r)
    slope, share, more = ZERO, ZERO, ZERO
    for k in range(n):
        p = ONE / max(r_now[k], delta)
        slope += p
        share += delta / max(r_now[k], delta)
        more += p - ONE / max(r[k], delta)
    for j in range(len(image)):
        image[j] = found[0, n + j]
    for t in range(1, len(found)):
        for j in range(len(image)):
            image[j] += found[t, n + j]
    if exact:
        for j in range(len(image)):
            image[j] /= share
    else:
        for j in range(len(image)):
            sum_of_pulls = pull[j] + image[j] + more * (centre[j] - at[j]) - slope * step[j]
            image[j] = w[j] + sum_of_pulls / slope
    return slope


@inlined
def lengths(w: Floats, image: Floats) -> tuple[Float, Float]:
    """‖image − w‖₂ and ‖w‖₂."""
    left, size = ZERO, ZERO
    for j in range(len(w)):
        residual = image[j] - w[j]
        left += residual * residual
        size += w[j] * w[j]
    return np.sqrt(left), np.sqrt(size)


@inlined
def end(told: Floats, known: Float, numbers: Floats, converged: Float) -> None:
    """This was the last turn."""
    told[KNOWN], numbers[ENDED], numbers[CONVERGED] = known, ONE, converged


@loop
def take_turn(
    found: Floats, centre: Floats, units: Floats, told: Floats, at: Floats, r: Floats, pull: Floats,
    models: Floats, numbers: Floats,
) -> None:  # fmt: skip
    """From what looks have found, each a row, to the next state."""
    delta, exact, ones = numbers[DELTA], numbers[EXACT] > 0, np.ones(len(r), np.float32)
    r_now = np.zeros(len(r), np.float32)
    for t in range(len(found)):
        for k in range(len(r)):
            r_now[k] += found[t, k]
    slope = put_image(found, delta, exact, r_now, at, r, pull, centre, models)
    w, image = models[W], models[IMAGE]
    left, size = lengths(w, image)
    numbers[LEFT_BEFORE], numbers[LEFT], numbers[SLOPE] = numbers[LEFT], left, slope
    numbers[TURNS] += ONE
    if not (are_finite(r_now) and are_finite(image)):
        end(told, NOTHING, numbers, ZERO)
        return
    unsure = ZERO
    if exact:
        told[LOST] = ZERO
        put(w, at)
        put(r_now, r)
        for j in range(len(w)):
            pull[j] = slope * (image[j] - w[j])
    else:
        unsure = told[LOST] + roundings(delta, r, r_now, units, np.sqrt(numbers[SQUARE]))
    told[AFAR] = ZERO if is_low(ones, delta, r_now, size, slope, TWO * unsure) else ONE
    stands = is_short(ones, size, slope, left)
    beside = is_beside_party(ones, delta, r_now, size)
    done = stands and not beside and is_low(ones, delta, r_now, size, slope, slope * left + unsure)
    halved = left <= HALF * numbers[LEFT_BEFORE] or (stands and not exact)
    if done or beside or not halved or numbers[TURNS] >= MOST_TURNS:
        end(told, max(told[KNOWN], PULLS), numbers, ONE if done else ZERO)
        return
    # Bytes cannot tell whether less than their roundings is left.
    look_again = stands or (not exact and slope * left < unsure)
    numbers[EXACT] = ONE if told[KNOWN] != ALL or look_again else ZERO
    if not exact and look_again:
        numbers[LEFT] = INFINITY
    onwards(at, centre, models, numbers, numbers[TURNS] > 1 and not look_again)
