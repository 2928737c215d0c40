"""Passes over W, by the compiled kernels of ``csrc/kernels.cc`` if they are available, else by JAX.

This is the only module that knows whether the compiled kernels are available. Each pass takes NumPy
arrays or JAX arrays (also traced ones) and returns arrays of the same kind:

- NumPy arrays go to the kernels directly, without JAX. ``as_input`` converts them to JAX arrays if
  there are no kernels.
- JAX arrays go to the kernels through XLA's foreign function interface (FFI) if the program runs on a
  CPU, else to ``jax_kernels``. Cores that run one program together also share its passes (``_spmd``).

The environment variable ``FEDPLUS_KERNELS`` is ``auto`` (the default: use kernels if possible), ``off``
(never use them) or ``require`` (fail without them).
"""

import ctypes
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedplus import _machine
from fedplus._backend import namespace
from fedplus._spmd import Shard, shard_of
from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation import jax_kernels
from fedplus.check import SettingError, require

LIBRARY = Path(__file__).with_name("_kernels.so")
MEMORY_WORDS = 58
"""The number of 32-bit words per column in the memory of ``incremental_medians``."""

_ENABLED: ContextVar[bool] = ContextVar("kernels", default=True)


class KernelWarning(UserWarning):
    """The warning that the compiled kernels are installed but cannot be used."""


@contextmanager
def use_jax_only() -> Iterator[None]:
    """Use JAX only in programs traced inside, e.g. if W is sharded over several devices."""
    token = _ENABLED.set(False)
    try:
        yield
    finally:
        _ENABLED.reset(token)


def available() -> bool:
    """Return True if JAX programs for a CPU use the kernels."""
    return _ENABLED.get() and _registered()


@cache
def _mode() -> str:
    """Return the value of ``FEDPLUS_KERNELS``."""
    mode = os.environ.get("FEDPLUS_KERNELS") or "auto"
    require(mode in ("auto", "off", "require"), "FEDPLUS_KERNELS", mode, "auto, off or require")
    return mode


@cache
def _library() -> ctypes.CDLL | None:
    """Return the library compiled for this processor's instruction set, or None.

    Raises:
        SettingError: ``FEDPLUS_KERNELS`` is unknown, or requires kernels that cannot be loaded.
    """
    if _mode() == "off":
        return None
    if not LIBRARY.exists():
        _report("they are not built", warn=False)
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
        for level in range(library.fedplus_level(), 1, -1):
            faster = LIBRARY.with_name(f"_kernels_v{level}.so")
            if faster.exists():
                library = ctypes.CDLL(str(faster))
                break
        pointers, integer = ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64
        library.fedplus_run.argtypes = [
            ctypes.c_char_p, ctypes.c_int, integer, integer, integer, ctypes.c_int, pointers,
            ctypes.c_int, pointers, integer,
        ]  # fmt: skip
        library.fedplus_xla  # noqa: B018  Fails here rather than when a program is compiled.
    except (OSError, AttributeError) as error:
        _report(str(error))
        return None
    return library


@cache
def _registered() -> bool:
    """Register the kernels with XLA, and return True if its programs can call them."""
    library = _library()
    if library is None:
        return False
    try:
        jax.local_devices(backend="cpu")  # XLA checks versions only if this backend exists.
    except RuntimeError:
        return False  # JAX has no CPU backend.
    try:
        target = jax.ffi.pycapsule(library.fedplus_xla)  # type: ignore[no-untyped-call]
        jax.ffi.register_ffi_target("fedplus", target, platform="cpu")
    except Exception as error:  # JAX can replace the kernels, whatever the error is.
        _report(str(error))
        return False
    return True


def _report(reason: str, warn: bool = True) -> None:
    """Report why kernels cannot be used: raise an error if they are required, else warn.

    Raises:
        SettingError: ``FEDPLUS_KERNELS`` is ``require``.
    """
    reason = (reason.splitlines() or ["no reason given"])[0]
    if _mode() == "require":
        raise SettingError(
            f"FEDPLUS_KERNELS=require needs compiled kernels: {reason}. Install fedplus on a machine "
            "with a C++ compiler, or set FEDPLUS_KERNELS=auto."
        )
    if warn:
        warnings.warn(
            f"The compiled kernels do not fit this machine or JAX ({reason}); JAX is used instead. "
            "Results are the same, but aggregation is slower. Reinstall fedplus to rebuild them.",
            KernelWarning,
            stacklevel=3,
        )


def as_input(w_local: Any) -> Any:
    """Return W as a NumPy array if the kernels support it, else as a JAX array."""
    if not isinstance(w_local, jax.Array):
        w_local = np.asarray(w_local)
        if w_local.dtype.kind in "biu":
            w_local = w_local.astype(jax.dtypes.canonicalize_dtype(float))
        is_native = w_local.dtype.char in "fd" and w_local.dtype.isnative
        if is_native and w_local.ndim == 2 and w_local.size and _ENABLED.get() and _library():
            return np.ascontiguousarray(w_local)
    array = jnp.asarray(w_local)
    return array if array.dtype in (jnp.float32, jnp.float64) else array.astype(float)


def weights_or_ones(w_local: Any, weights: Any | None) -> Any:
    """Return (N,), the weights, or ones if ``weights`` is None."""
    return namespace(w_local).ones(len(w_local), w_local.dtype) if weights is None else weights


def weighted_sum(w_local: Any, p: Any) -> Any:
    """Return (d,), Σ_k p_k w_k."""
    return _run("weighted_sum", jax_kernels.weighted_sum, w_local, [p], ["columns"])[0]


def distances_and_descent(w_local: Any, weights: Any, delta: Any, at: Any) -> tuple[Any, Any]:
    """Return the distances of the models from a point, and the negative gradient there.

    The function is f(w) = Σ_k a_k h(‖w_k − w‖), with h(r) = r − δ/2 for r > δ and r²/2δ for r ≤ δ. The
    kernel's name in ``csrc/kernels.cc`` is ``pulls``.

    Args:
        w_local: (N, d), W.
        weights: (N,), a.
        delta: δ ≥ 0.
        at: (d,), the point.

    Returns:
        (N,), r_k = ‖w_k − at‖; and (d,), −∇f(at) = Σ_k a_k (w_k − at) / max(r_k, δ).
    """
    inputs = [weights, _scalar(delta, w_local), at]
    jax_kernel = jax_kernels.distances_and_descent
    r, descent = _run("pulls", jax_kernel, w_local, inputs, ["rows", "sum"])
    return r, descent


def medians(w_local: Any, weights: Any | None, start: Any | None = None) -> Any:
    """Return (d,), the coordinatewise median: the midpoint of all minimisers of Σ_k a_k |w_k − w|.

    ``start``, a point near the median, saves time and does not change the result.
    """
    inputs = [weights, start]
    return _run("medians", jax_kernels.medians, w_local, inputs, ["columns"])[0]


def delta_medians(
    w_local: Any, weights: Any | None, delta: Any, start: Any | None
) -> tuple[Any, Any]:
    """Return (d,), the δ-coordinatewise median, and the number of unsolved coordinates.

    It is the root of Σ_k a_k clip(w_k − w, −δ, δ) in each coordinate, or the root nearest to the mean
    if the roots form an interval. ``start`` saves time and does not change the result.
    """
    inputs, outputs = [weights, _scalar(delta, w_local), start], ["columns", "count"]
    w, unsolved = _run("delta_medians", jax_kernels.delta_medians, w_local, inputs, outputs)
    return w, unsolved[0]


def incremental_medians(
    w_local: Matrix, changed: Any, counted: Array | None, delta: Any, start: Vector, memory: Array
) -> tuple[Vector, Array, Array]:
    """Return the δ-coordinatewise median of a W in which few rows changed. It needs compiled kernels.

    Args:
        w_local: (N, d), W.
        changed: The rows that changed since the last call (``ChangedRows``).
        counted: (N,), True for rows that count. None: all rows count.
        delta: δ > 0.
        start: (d,), the last median.
        memory: (d, MEMORY_WORDS), the memory that the last call returned; -1 everywhere if empty.

    Returns:
        The median, the number of unsolved coordinates, and the memory for the next call.
    """
    shard = shard_of(w_local.shape[1], w_local.size)
    rows, before, was_counted = changed
    n, k = len(w_local), len(rows)
    now = jnp.ones(n, jnp.int32) if counted is None else counted.astype(jnp.int32)
    then = jnp.ones(k, jnp.int32) if was_counted is None else was_counted.astype(jnp.int32)
    delta = _scalar(delta, w_local)
    inputs = [rows.astype(jnp.int32), before, delta, start, now, then, memory]
    outputs = ["columns", "count", "memory"]
    w, unsolved, new_memory = _call("incremental_medians", shard, w_local, inputs, outputs)
    return shard.gather(w), shard.add(unsolved)[0], new_memory


def _scalar(delta: Any, w_local: Any) -> Any:
    """Return δ in the dtype of W. A δ beyond its range is reduced, which changes no result."""
    xp, info = namespace(w_local, delta), np.finfo(w_local.dtype)
    return xp.asarray(xp.clip(delta, 0, info.max / 8), w_local.dtype)


def _run(
    name: str, jax_kernel: Callable[..., Any], w_local: Any, inputs: Any, outputs: Sequence[str]
) -> Any:
    """Run a compiled kernel on NumPy arrays and in programs for a CPU, else the same pass in JAX.

    Args:
        name: The kernel's name in ``csrc/kernels.cc``.
        jax_kernel: The same pass in JAX, with the same arguments and results.
        w_local: W.
        inputs: The other arguments, arrays or None.
        outputs: The kinds of the results: "columns" (d,), of which each core computes a part; "rows"
            (N,), "sum" (d,) and "count" (1,), which are added over the cores.
    """
    if isinstance(w_local, np.ndarray):
        return _run_numpy(name, w_local, inputs, outputs)

    def compiled(w_local: Matrix, *arrays: Array) -> tuple[Array, ...]:
        shard = shard_of(w_local.shape[0 if "rows" in outputs else 1], w_local.size)
        return shard.combine(_call(name, shard, w_local, arrays, outputs), outputs)

    def in_jax(w_local: Matrix, *arrays: Array) -> tuple[Array, ...]:
        arguments = (x if x is None else y for x, y in zip(inputs, arrays, strict=True))
        result = jax_kernel(w_local, *arguments)
        return result if isinstance(result, tuple) else (result,)

    arrays = [jnp.zeros(0, w_local.dtype) if x is None else jnp.asarray(x) for x in inputs]
    if w_local.dtype not in (jnp.float32, jnp.float64) or not (w_local.size and available()):
        return in_jax(w_local, *arrays)
    return lax.platform_dependent(w_local, *arrays, cpu=compiled, default=in_jax)


def _shapes(w_local: Any, outputs: Sequence[str], columns: int) -> list[tuple[Any, Any]]:
    """Return the shape and dtype of each output, if one core computes this many columns."""
    n, d = w_local.shape
    float_, int_ = w_local.dtype, np.dtype(np.int32)
    shapes = {
        "columns": ((columns,), float_),
        "rows": ((n,), float_),
        "sum": ((d,), float_),
        "count": ((1,), int_),
        "memory": ((columns, MEMORY_WORDS), int_),
    }
    return [shapes[kind] for kind in outputs]


def _call(name: str, shard: Shard, w_local: Any, inputs: Any, outputs: Sequence[str]) -> Any:
    """Call a kernel from a JAX program, on one thread if several cores share the pass."""
    struct: Any = jax.ShapeDtypeStruct  # Untyped in JAX.
    results = [struct(*shape) for shape in _shapes(w_local, outputs, shard.size)]
    in_place = {len(inputs) + 1: len(outputs) - 1} if "memory" in outputs else None
    call = jax.ffi.ffi_call(
        "fedplus", results, vmap_method="sequential", input_output_aliases=in_place
    )
    begin = jnp.asarray(shard.begin, jnp.int32).reshape(1)
    size, alone = np.int64(shard.size), np.int64(shard.axis is not None)
    return call(w_local, begin, *inputs, kernel=name, size=size, alone=alone)


def _run_numpy(name: str, w_local: Any, inputs: Any, outputs: Sequence[str]) -> list[Any]:
    """Run a kernel on NumPy arrays; the rows of W need not be contiguous."""
    library, dtype = _library(), w_local.dtype
    assert library is not None
    w_local = w_local if w_local.strides[1] == dtype.itemsize else np.ascontiguousarray(w_local)
    arrays = [w_local, *(x if x is None else np.ascontiguousarray(x, dtype) for x in inputs)]
    results = [np.empty(*shape) for shape in _shapes(w_local, outputs, w_local.shape[1])]
    stride = w_local.strides[0] // w_local.itemsize
    is_known = library.fedplus_run(
        name.encode(),
        w_local.itemsize == 8,
        *w_local.shape,
        stride,
        len(arrays),
        _pointers(arrays),
        len(results),
        _pointers(results),
        _machine.core_count(),
    )
    if not is_known:
        raise RuntimeError(f"The compiled kernels have no {name}. Reinstall fedplus.")
    return results


def _pointers(arrays: list[Any]) -> Any:
    """Return a C array of the arrays' addresses, null for None."""
    addresses = (x if x is None else x.__array_interface__["data"][0] for x in arrays)
    return (ctypes.c_void_p * len(arrays))(*addresses)
