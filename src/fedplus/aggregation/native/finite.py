"""Whether all entries are finite: the loops take them to be."""

import numpy as np

from fedplus.aggregation.native.loop import (
    ZERO,
    Floats,
    Int,
    Ints,
    in_threads,
    loop,
    loop_in_threads,
    loop_of_any,
    piece,
)

WITHOUT_SIGN, INFINITE = np.int32(0x7FFFFFFF), np.int32(0x7F800000)


@loop
def largest(bits: Ints) -> Int:
    """The largest number without its sign; what is not finite is larger than all that is."""
    found = np.int32(0)
    for i in range(len(bits)):
        found = max(found, np.int32(bits[i] & WITHOUT_SIGN))
    return found


@loop_of_any
def are_finite(x: Floats) -> bool:
    """Of one model."""
    # 0 times what is not finite is not a number.
    total = ZERO
    for j in range(len(x)):
        total += ZERO * x[j]
    return bool(total == 0)


@loop_in_threads
def all_are_finite(bits: Ints, column: int, size: int, threads: int) -> bool:
    """All bits of W, and the columns to look at: so many from one on."""
    found = np.zeros(threads, np.int32)
    for t in in_threads(threads):
        begin, end = piece(len(bits), t, threads)
        for k in range(begin, end):
            found[t] = max(found[t], largest(bits[k, column : column + size]))
    return bool(found.max() < INFINITE)
