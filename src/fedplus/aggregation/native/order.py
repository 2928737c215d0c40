"""Floating-point numbers as whole numbers of the same order.

Of these a register finds the largest and the least in one instruction.
"""

import numpy as np

from fedplus.aggregation.native.loop import Float, Int, loop

LARGEST, SMALLEST = np.int32(2**31 - 1), np.int32(1 - 2**31)


@loop
def ordered(bits: Int) -> Int:
    """Whole numbers in the order of the floating-point numbers of these bits; the inverse, too."""
    return np.int32(bits ^ ((bits >> 31) & LARGEST))


@loop
def key_of(x: Float) -> Int:
    """The whole number for a floating-point number."""
    return ordered(np.float32(x).view(np.int32))


@loop
def number_of(key: Int) -> Float:
    """The floating-point number for a whole number."""
    return np.int32(ordered(key)).view(np.float32)


@loop
def just_below(x: Float) -> Float:
    """The next smaller number."""
    return number_of(np.int32(key_of(x) - 1))
