"""Medians near to where they are looked for, many coordinates at a time.

Of last round's medians most are this round's, or a party or two away: a pass over whole rows tells. Who
is further away is searched for by itself.
"""

from fedplus.aggregation.native.columns import FEW
from fedplus.aggregation.native.finite import are_finite
from fedplus.aggregation.native.loop import (
    EPSILON,
    FOUR,
    HALF,
    INFINITY,
    TWO,
    ZERO,
    Float,
    Floats,
    Ints,
    loop,
    loop_of_any,
)
from fedplus.aggregation.native.order import just_below


@loop
def larger(x: Float, y: Float) -> Float:
    """Of two; unlike ``max``, one instruction."""
    return x if x > y else y


@loop
def smaller(x: Float, y: Float) -> Float:
    """Of two."""
    return x if x < y else y


@loop
def up_to_there(x: Float, point: Float) -> Float:
    """That x where it is not above the point, else none."""
    return x if x <= point else -INFINITY


@loop
def only_above(x: Float, point: Float) -> Float:
    """That x where it is above the point, else none."""
    return INFINITY if x <= point else x


@loop_of_any
def count(
    w_local: Floats, weights: Floats, begin: int, end: int, at: Floats,
    up_to: Floats, below: Floats, above: Floats, total: Floats,
) -> None:  # fmt: skip
    """The weight up to each point, the nearest party there or below, that above, and all added up."""
    up_to[:], below[:], above[:], total[:] = ZERO, -INFINITY, INFINITY, ZERO
    k, n = 0, len(w_local)
    while k + 4 <= n:
        row, second = w_local[k, begin:end], w_local[k + 1, begin:end]
        third, fourth = w_local[k + 2, begin:end], w_local[k + 3, begin:end]
        a, b, c, e = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for j in range(len(at)):
            x, y, z, u, point = row[j], second[j], third[j], fourth[j], at[j]
            up_to[j] += ((a if x <= point else ZERO) + (b if y <= point else ZERO)) + (
                (c if z <= point else ZERO) + (e if u <= point else ZERO)
            )
            low = larger(up_to_there(x, point), up_to_there(y, point))
            low = larger(low, larger(up_to_there(z, point), up_to_there(u, point)))
            high = smaller(only_above(x, point), only_above(y, point))
            high = smaller(high, smaller(only_above(z, point), only_above(u, point)))
            below[j], above[j] = larger(below[j], low), smaller(above[j], high)
            total[j] += (x + y) + (z + u)
        k += 4
    while k < n:
        row, a = w_local[k, begin:end], weights[k]
        for j in range(len(at)):
            x, point = row[j], at[j]
            up_to[j] += a if x <= point else ZERO
            below[j] = larger(below[j], up_to_there(x, point))
            above[j] = smaller(above[j], only_above(x, point))
            total[j] += x
        k += 1


@loop
def walk(
    w_local: Floats, weights: Floats, all_weights: tuple[Float, Float, Float], most: int,
    begin: int, end: int, at: Floats, done: Ints, room: Floats,
) -> int:  # fmt: skip
    """Move ``at`` from party to party in the columns given, so many times at most; how many it took.

    Where it is ``done``, it is the median. ``room``: four rows to write to. A pass less than none: W is
    not finite there.
    """
    weight, least, _ = all_weights
    tied = FOUR * EPSILON * weight
    up_to, below, above = room[0, : len(at)], room[1, : len(at)], room[2, : len(at)]
    total = room[3, : len(at)]
    done[:], passes = 0, 0
    while passes < most:
        passes += 1
        count(w_local, weights, begin, end, at, up_to, below, above, total)
        if not are_finite(total):
            return -1
        settled = 0
        for j in range(len(at)):
            pull = weight - TWO * up_to[j]
            neighbour = above[j] if pull > 0 else below[j]
            # With less than one party's weight to go, the neighbour itself is the median.
            ends = abs(pull) < TWO * least
            if done[j] == 0:
                done[j] = 1 if ends else 0
                onwards = neighbour if ends or pull > 0 else just_below(neighbour)
                at[j] = HALF * below[j] + HALF * above[j] if abs(pull) <= tied else onwards
            settled += done[j]
        if FEW * (len(at) - settled) <= len(at):
            break
    return passes
