"""The loops of a coarse W with arguments as XLA's programs have them."""

import numpy as np

from fedplus.aggregation.native import coarse, turns
from fedplus.aggregation.native.layout import STEP, W
from fedplus.aggregation.native.loop import Bytes, Floats, Ints, loop, loop_in_threads, put

renew_rows, look_at_rows, look_at_all = coarse.renew, coarse.look_at_rows, coarse.look_in_threads
take_turn, begin_turns = turns.take_turn, turns.begin


@loop
def renew(
    w_local: Floats, rows: Ints, before: Floats, delta: Floats, at: Floats, ahead: Floats,
    part: Ints, told: Floats, r: Floats, pull: Floats, centre: Floats, entries: Bytes,
    units: Floats, change: Floats,
) -> None:  # fmt: skip
    """``coarse.renew``."""
    renew_rows(
        w_local, rows, before, delta[0], part[3], at, ahead, told, r, pull, centre, entries, units,
        change,
    )  # fmt: skip


@loop
def look(
    w_local: Floats, entries: Bytes, units: Floats, before: Floats, models: Floats, numbers: Floats,
    part: Ints, found: Floats,
) -> None:  # fmt: skip
    """Of the part's rows the distances from w, else 0, and then the sum."""
    n = len(before)
    found[:] = 0
    look_at_rows(
        w_local, entries, units[0], before, numbers, models[STEP], models[W], part[0], part[1],
        part[3], found[:n], found[n:],
    )  # fmt: skip


@loop_in_threads
def look_in_threads(
    w_local: Floats, entries: Bytes, units: Floats, before: Floats, models: Floats, numbers: Floats,
    part: Ints, found: Floats,
) -> None:  # fmt: skip
    """The same of all rows."""
    n, threads, d = len(before), part[2], models.shape[1]
    sums = np.empty((threads, d), np.float32)
    look_at_all(
        w_local, entries, units[0], before, numbers, models[STEP], models[W], threads, part[3],
        found[:n], sums,
    )  # fmt: skip
    found[n:] = sums.sum(axis=0)


@loop
def begin(
    start: Floats, delta: Floats, told: Floats, at: Floats, centre: Floats, models: Floats,
    numbers: Floats,
) -> None:  # fmt: skip
    """``turns.begin``, at the start."""
    put(start, models[W])
    begin_turns(told, delta[0], at, centre, models, numbers)


@loop
def turn(
    found: Floats, centre: Floats, units: Floats, told: Floats, at: Floats, r: Floats,
    pull: Floats, models: Floats, numbers: Floats,
) -> None:  # fmt: skip
    """``turns.take_turn``, of what each core has found."""
    n = len(r)
    r_now = found[0, :n].copy()
    for core in range(1, len(found)):
        for k in range(n):
            r_now[k] += found[core, k]
    take_turn(r_now, found, n, told, at, r, pull, centre, units, models, numbers)
