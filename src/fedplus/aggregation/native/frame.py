"""How XLA calls a loop: by a function that finds the loop's arrays in what XLA hands to it.

XLA's foreign function interface is a few structs of C (``xla/ffi/api/c_api.h``, whose layout changes
with its major version alone). All their fields that matter here are words of 64 bits::

    frame     size, extension, api, context, stage, arguments, results, ...
    api       size, extension, version (as below), internal, function that makes an error, ...
    error     size, extension, message, code
    arguments (results)   size, extension, count, types, buffers
    buffer    size, extension, type, data, rank, dimensions
    extension size, type, next, metadata
    metadata  size, version (size, extension, major and minor in one word), ...

The function is written in LLVM's language right away, and jumps to the loop as it is on disk: had Numba
to read it, it would compile the loop once more, in every process. Where the loop lies, a word of memory
tells when it is called: until then others may compile the loop.
"""

from typing import Any, NamedTuple

import numba as typed_numba
import numpy as np
from numba import extending
from numba.core import cgutils as typed_cgutils
from numba.np import arrayobj

from fedplus._types import Host

numba: Any = typed_numba
intrinsic: Any = extending.intrinsic
cgutils: Any = typed_cgutils
arrays: Any = arrayobj
types: Any = numba.types

MAJOR = 0
EXTENSION, API, ARGUMENTS, RESULTS = 1, 2, 9, 14
DATA, DIMENSIONS = 3, 5
METADATA, VERSION = 3, 3
KNOWN, MAKE_ERROR = 4, 6
FAILED = b"fedplus: memory ran out in a compiled loop. FEDPLUS_NUMBA=off goes without these."
RESOURCE_EXHAUSTED = 8
MISSING = (
    b"fedplus: a loop was called before it was compiled. FEDPLUS_NUMBA=off goes without these."
)
INTERNAL = 13


class Kind(NamedTuple):
    """Of an array: what its numbers are, how many axes, and how many of XLA's make one of them."""

    number: Any
    axes: int
    each: int = 1

    @property
    def array(self) -> Any:
        """As Numba knows it."""
        return types.Array(self.number, self.axes, "C")


VECTOR, MATRIX = Kind(types.float32, 1), Kind(types.float32, 2)
INTEGERS, COUNTS, BYTES = Kind(types.int32, 1), Kind(types.int32, 2), Kind(types.int8, 2)
DOUBLES = Kind(types.float64, 2, each=2)
"""Each kept as two whole numbers of 32 bits: JAX may not know of numbers of 64."""


class Takes(NamedTuple):
    """What a loop takes: the arguments, and then room for the results."""

    arguments: tuple[Kind | None, ...]
    """None: what a result takes the place of; the loop reads it there."""
    results: tuple[Kind, ...]

    @property
    def places(self) -> list[tuple[int, int, Kind]]:
        """Among what XLA hands over: which list, where on it, and what it is."""
        given = [(ARGUMENTS, i, kind) for i, kind in enumerate(self.arguments) if kind is not None]
        return given + [(RESULTS, i, kind) for i, kind in enumerate(self.results)]

    @property
    def types(self) -> tuple[Any, ...]:
        """As Numba knows them."""
        return tuple(kind.array for _, _, kind in self.places)


class Called(NamedTuple):
    """A function that XLA can call: of a frame's address; it returns an error's, or 0."""

    function: Any
    lies: Host
    """One word: where the loop lies. 0: it is not compiled yet."""


class _Words:
    """Words of 64 bits from an address on, as LLVM reads and writes them."""

    def __init__(self, builder: Any, address: Any) -> None:
        self._builder, self._first = builder, builder.inttoptr(address, cgutils.intp_t.as_pointer())

    def __getitem__(self, i: int) -> Any:
        return self._builder.load(self._at(i))

    def __setitem__(self, i: int, word: Any) -> None:
        self._builder.store(word, self._at(i))

    def _at(self, i: int) -> Any:
        return self._builder.gep(self._first, [cgutils.intp_t(i)])

    def words(self, i: int) -> "_Words":
        """The words at the address that word i holds."""
        return _Words(self._builder, self[i])


def _array(context: Any, builder: Any, buffer: _Words, kind: Kind) -> Any:
    """What lies in a buffer, as Numba hands it to a loop."""
    array, dimensions = arrays.make_array(kind.array)(context, builder), buffer.words(DIMENSIONS)
    shape = [dimensions[i] for i in range(kind.axes)]
    if kind.each > 1:
        shape[-1] = builder.udiv(shape[-1], cgutils.intp_t(kind.each))
    size = cgutils.intp_t(kind.number.bitwidth // 8)
    strides = [size]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(length, strides[0]))
    data = builder.inttoptr(buffer[DATA], array.data.type)
    arrays.populate_array(array, data, shape, strides, size, meminfo=None)
    return array._getvalue()


def _answer(builder: Any, frame: _Words) -> None:
    """XLA only asks for which version this was written: its own, if we know its structs."""
    asked, known = frame.words(EXTENSION).words(METADATA), frame.words(API)[KNOWN]
    major = builder.and_(known, cgutils.intp_t(0xFFFFFFFF))
    with builder.if_then(builder.icmp_unsigned("==", major, cgutils.intp_t(MAJOR))):
        asked[VERSION] = known


def _error(builder: Any, frame: _Words, message: bytes, code: int) -> Any:
    """Of XLA's."""
    word = cgutils.intp_t
    text = cgutils.global_constant(builder, "message", cgutils.make_bytearray(message + bytes(1)))
    error = cgutils.alloca_once(builder, word, size=4)
    fields = _Words(builder, builder.ptrtoint(error, word))
    fields[0], fields[1] = word(32), word(0)
    fields[2], fields[3] = builder.ptrtoint(text, word), word(code)
    made = cgutils.ir.FunctionType(word, [word])
    make = builder.inttoptr(frame.words(API)[MAKE_ERROR], made.as_pointer())
    return builder.call(make, [builder.ptrtoint(error, word)])


def _jump(context: Any, builder: Any, address: Any, takes: Takes, frame: _Words) -> Any:
    """Call the loop at an address; whether it failed: it does if there is no memory, and only then."""
    given = [
        _array(context, builder, frame.words(which).words(i), kind)
        for which, i, kind in takes.places
    ]
    how = context.call_conv.get_function_type(types.none, takes.types)
    there = builder.inttoptr(address, how.as_pointer())
    room = [cgutils.alloca_once(builder, a.pointee) for a in how.args[:2]]
    flat = context.get_arg_packer(takes.types).as_arguments(builder, given)
    return cgutils.is_not_null(builder, builder.call(there, [*room, *flat]))


def callable_by_xla(takes: Takes) -> Called:
    """A loop that takes this, as XLA can call it."""
    word, lies = cgutils.intp_t, np.zeros(1, np.int64)

    @intrinsic  # type: ignore[untyped-decorator]
    def call(_: Any, frame: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = _Words(builder, builder.ptrtoint(args[0], word))
            answer = cgutils.alloca_once_value(builder, word(0))
            asks = builder.icmp_unsigned("!=", found[EXTENSION], word(0))
            with builder.if_else(asks) as (yes, no):
                with yes:
                    _answer(builder, found)
                with no:
                    address = _Words(builder, word(lies.ctypes.data))[0]
                    with builder.if_else(cgutils.is_null(builder, address)) as (missing, there):
                        with missing:
                            builder.store(_error(builder, found, MISSING, INTERNAL), answer)
                        with there:
                            failed = _jump(context, builder, address, takes, found)
                            with cgutils.if_unlikely(builder, failed):
                                error = _error(builder, found, FAILED, RESOURCE_EXHAUSTED)
                                builder.store(error, answer)
            return builder.load(answer)

        return types.intp(types.voidptr), generate

    def handle(address: Any) -> Any:
        return call(address)

    return Called(numba.cfunc(types.intp(types.voidptr))(handle), lies)
