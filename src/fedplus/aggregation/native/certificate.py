"""Whether a turn of a geometric median was the last: the tests of ``aggregation/reweighted.py``."""

import numpy as np

from fedplus.aggregation.certificate import ACCURACY
from fedplus.aggregation.native.loop import (
    EPSILON,
    FOUR,
    HALF,
    TWO,
    ZERO,
    Float,
    Floats,
    inlined,
    loop,
)
from fedplus.aggregation.reweighted import LEAST_SPRING, SAME

EIGHT = np.float32(8)
SHORT = np.float32(max(1e-4 * ACCURACY, float(4 * EPSILON)))
NEAR_ENOUGH = np.float32(ACCURACY + 8 * EPSILON)


@inlined
def height_of(weights: Floats, delta: Float, r: Floats) -> Float:
    """Σ a_k h(r_k)."""
    height = ZERO
    for k in range(len(r)):
        within = HALF * r[k] * r[k] / delta
        height += weights[k] * (r[k] - HALF * delta if r[k] > delta else within)
    return height


@loop
def is_beside_party(weights: Floats, delta: Float, r: Floats, size: Float) -> bool:
    """Whether parties at one place may pull w so steeply that turns creep there."""
    nearest = 0
    for k in range(1, len(r)):
        if weights[k] * max(r[nearest], delta) > weights[nearest] * max(r[k], delta):
            nearest = k
    reach, apart = max(r[nearest], delta), SAME * r[nearest] + EIGHT * EPSILON * size
    there, total, weight, away = ZERO, ZERO, ZERO, ZERO
    for k in range(len(r)):
        steepness = weights[k] * (reach / max(r[k], delta))
        total += steepness
        there += steepness if abs(r[k] - r[nearest]) <= apart else ZERO
        weight += weights[k]
        away += weights[k] * r[k]
    if TWO * there < total:
        return False
    return bool(r[nearest] > HALF * delta or delta < LEAST_SPRING * (size + away / weight))


@inlined
def is_short(weights: Floats, size: Float, slope: Float, left: Float) -> bool:
    """Whether the next step is."""
    return bool(left <= SHORT * weights.sum() / slope + FOUR * EPSILON * size)


@inlined
def is_low(
    weights: Floats, delta: Float, r: Floats, size: Float, slope: Float, pull: Float
) -> bool:
    """Whether a bound from below shows that no point is much lower than one with this pull."""
    weight, close = ZERO, ZERO
    for k in range(len(r)):
        weight += weights[k]
        close += weights[k] if r[k] <= HALF * delta else ZERO
    rounding = EIGHT * EPSILON * (slope * size + weight)
    unbalanced, spring = max(pull - rounding, ZERO), close / delta
    height = height_of(weights, delta, r)
    held = unbalanced < HALF * delta * spring
    away = unbalanced / spring if held else TWO * height / weight + delta
    return bool(unbalanced * away <= NEAR_ENOUGH * height)


@loop
def is_lowest(
    weights: Floats, delta: Float, r: Floats, size: Float, slope: Float, left: Float
) -> bool:
    """Whether the next step is short, and no point is much lower."""
    return is_short(weights, size, slope, left) and is_low(
        weights, delta, r, size, slope, slope * left
    )
