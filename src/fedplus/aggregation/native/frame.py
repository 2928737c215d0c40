"""What XLA hands to machine code that it calls, read by such code.

XLA's foreign function interface is a few structs of C (``xla/ffi/api/c_api.h``, whose layout changes
with its major version alone). All their fields that matter here are words of 64 bits::

    frame     size, extension, api, context, stage, arguments, results, ...
    arguments (results)   size, extension, count, types, buffers
    buffer    size, extension, type, data, rank, dimensions
    extension size, type, next, metadata
    metadata  size, version (size, extension, major and minor in one word), ...
"""

from typing import Any

import numba as typed_numba
import numpy as np
from numba import extending

from fedplus.aggregation.native.loop import loop

numba: Any = typed_numba
intrinsic: Any = extending.intrinsic

MAJOR = 0
EXTENSION, API, ARGUMENTS, RESULTS = 1, 2, 9, 14
DATA, DIMENSIONS = 3, 5
METADATA, VERSION = 3, 3


@intrinsic  # type: ignore[untyped-decorator]
def pointer(_: Any, address: Any) -> Any:
    """A number as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return numba.types.voidptr(numba.types.int64), generate


@loop
def words(address: int, count: int) -> Any:
    """The words from an address on."""
    return numba.carray(pointer(address), count, np.int64)


@loop
def is_question(frame: Any) -> bool:
    """Whether XLA only asks for which version this was written: its own, if we know its structs."""
    if frame[EXTENSION] == 0:
        return False
    asked, known = words(words(frame[EXTENSION], 4)[METADATA], 4), words(frame[API], 5)[4]
    if known & 0xFFFFFFFF == MAJOR:
        asked[VERSION] = known
    return True


@loop
def buffer(frame: Any, which: int, i: int) -> Any:
    """The words of the i-th argument or result."""
    return words(words(frame[which], i + 1)[i], 6)


@loop
def matrix(frame: Any, which: int, i: int) -> Any:
    """An argument or result of two axes."""
    found = buffer(frame, which, i)
    shape = words(found[DIMENSIONS], 2)
    return numba.carray(pointer(found[DATA]), (shape[0], shape[1]), np.float32)


@loop
def counts(frame: Any, which: int, i: int) -> Any:
    """The same, of whole numbers."""
    found = buffer(frame, which, i)
    shape = words(found[DIMENSIONS], 2)
    return numba.carray(pointer(found[DATA]), (shape[0], shape[1]), np.int32)


@loop
def octets(frame: Any, which: int, i: int) -> Any:
    """The same, of whole numbers of 8 bits."""
    found = buffer(frame, which, i)
    shape = words(found[DIMENSIONS], 2)
    return numba.carray(pointer(found[DATA]), (shape[0], shape[1]), np.int8)


@loop
def doubles(frame: Any, which: int, i: int) -> Any:
    """The same, of numbers of 64 bits, each kept as two whole numbers: JAX may not know of such."""
    found = buffer(frame, which, i)
    shape = words(found[DIMENSIONS], 2)
    return numba.carray(pointer(found[DATA]), (shape[0], shape[1] // 2), np.float64)


@loop
def vector(frame: Any, which: int, i: int) -> Any:
    """An argument or result of one axis."""
    found = buffer(frame, which, i)
    return numba.carray(pointer(found[DATA]), words(found[DIMENSIONS], 1)[0], np.float32)


@loop
def integers(frame: Any, which: int, i: int) -> Any:
    """An argument or result of one axis, of whole numbers."""
    found = buffer(frame, which, i)
    return numba.carray(pointer(found[DATA]), words(found[DIMENSIONS], 1)[0], np.int32)


def callable_by_xla(loop: Any, arguments: Any) -> Any:
    """The loop as XLA can call it: a function of a frame's address that returns 0, for no error.

    ``arguments`` finds those of the loop in the frame.
    """

    def handle(address: Any) -> int:
        frame = numba.carray(address, 16, np.int64)
        if not is_question(frame):
            loop(*arguments(frame))
        return 0

    return numba.cfunc(numba.types.intp(numba.types.voidptr))(handle)
