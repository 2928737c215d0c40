"""Passes over W: compiled kernels on a CPU where they are installed, and else the same passes in JAX.

This is the only module that knows whether the kernels of ``csrc/kernels.cc`` are there. A pass takes a
NumPy array or a JAX array (also a traced one) and returns arrays of the same kind:

- NumPy arrays go to the kernels directly, without JAX. ``as_input`` turns them into JAX arrays
  where there are no kernels.
- JAX arrays go to the kernels through XLA's foreign function interface (FFI) if the program runs on
  a CPU, and else to ``jax_kernels``. Cores that share a program also share its passes (see ``_cores``).

The environment variable ``FEDPLUS_KERNELS`` decides: ``auto`` (default) uses kernels if it can, ``off``
never, ``require`` fails without them.
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
"""Words of 32 bits per column that ``incremental_medians`` remembers, as in csrc/kernels.cc."""

_ENABLED: ContextVar[bool] = ContextVar("kernels", default=True)


class KernelWarning(UserWarning):
    """The compiled kernels are there but cannot be used."""


@contextmanager
def use_jax_only() -> Iterator[None]:
    """Use JAX alone in programs traced inside, such as ones whose W is spread over several devices."""
    token = _ENABLED.set(False)
    try:
        yield
    finally:
        _ENABLED.reset(token)


def available() -> bool:
    """Return whether JAX programs for a CPU use the kernels."""
    return _ENABLED.get() and _registered()


@cache
def _mode() -> str:
    mode = os.environ.get("FEDPLUS_KERNELS") or "auto"
    require(mode in ("auto", "off", "require"), "FEDPLUS_KERNELS", mode, "auto, off or require")
    return mode


@cache
def _library() -> ctypes.CDLL | None:
    """Load the kernels for this processor's instruction set; None if there are none.

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
            better = LIBRARY.with_name(f"_kernels_v{level}.so")
            if better.exists():
                library = ctypes.CDLL(str(better))
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
    """Register the kernels with XLA; return whether its programs can call them."""
    library = _library()
    if library is None:
        return False
    try:
        jax.local_devices(backend="cpu")  # XLA checks versions only once this backend exists.
    except RuntimeError:
        return False  # There are no programs for a CPU.
    try:
        target = jax.ffi.pycapsule(library.fedplus_xla)  # type: ignore[no-untyped-call]
        jax.ffi.register_ffi_target("fedplus", target, platform="cpu")
    except Exception as error:  # Whatever XLA objects to, JAX can take over.
        _report(str(error))
        return False
    return True


def _report(reason: str, warn: bool = True) -> None:
    """Say why kernels cannot be used: as an error if they are required, else as a warning.

    Raises:
        SettingError: With ``FEDPLUS_KERNELS=require``.
    """
    reason = (reason.splitlines() or ["no reason given"])[0]
    if _mode() == "require":
        raise SettingError(
            f"FEDPLUS_KERNELS=require needs compiled kernels: {reason}. Install fedplus on a machine "
            "with a C++ compiler, or set FEDPLUS_KERNELS=auto."
        )
    if warn:
        warnings.warn(
            f"The compiled kernels do not fit this machine or JAX ({reason}); JAX takes over. Results "
            "are the same, aggregation is slower. Reinstalling fedplus builds them anew.",
            KernelWarning, stacklevel=3,
        )  # fmt: skip


def as_input(w_local: Any) -> Any:
    """Return W as a NumPy array if kernels take it as it is, and else as a JAX array."""
    if not isinstance(w_local, jax.Array):
        w_local = np.asarray(w_local)
        if w_local.dtype.kind in "biu":
            w_local = w_local.astype(jax.dtypes.canonicalize_dtype(float))
        native = w_local.dtype.char in "fd" and w_local.dtype.isnative
        if native and w_local.ndim == 2 and w_local.size and _ENABLED.get() and _library():
            return np.ascontiguousarray(w_local)
    array = jnp.asarray(w_local)
    return array if array.dtype in (jnp.float32, jnp.float64) else array.astype(float)


def weights_or_ones(w_local: Any, weights: Any | None) -> Any:
    """Return the parties' weights, (N,); 1 each if none are given."""
    return namespace(w_local).ones(len(w_local), w_local.dtype) if weights is None else weights


def weighted_sum(w_local: Any, p: Any) -> Any:
    """Return Σ_k p_k w_k, (d,)."""
    return _run("weighted_sum", jax_kernels.weighted_sum, w_local, [p], ["columns"])[0]


def pulls(w_local: Any, weights: Any, delta: Any, at: Any) -> tuple[Any, Any]:
    """Return distances and the sum of pulls.

    They are r_k = ‖w_k − at‖, (N,), and g = Σ_k a_k (w_k − at) / max(r_k, δ), (d,).
    """
    inputs = [weights, _scalar(delta, w_local), at]
    r, g = _run("pulls", jax_kernels.pulls, w_local, inputs, ["rows", "sum"])
    return r, g


def medians(w_local: Any, weights: Any | None, start: Any | None = None) -> Any:
    """Return the coordinatewise median, (d,): the middle of all minimisers of Σ_k a_k |w_k − w|.

    ``start``, a point near the median, saves time and does not change the result.
    """
    inputs = [weights, start]
    return _run("medians", jax_kernels.medians, w_local, inputs, ["columns"])[0]


def delta_medians(
    w_local: Any, weights: Any | None, delta: Any, start: Any | None
) -> tuple[Any, Any]:
    """Return the δ-coordinatewise median, (d,), and how many of its coordinates were not found.

    It is the root of Σ_k a_k clip(w_k − w, −δ, δ) in each coordinate; where the roots form an interval,
    its point nearest to the mean. ``start`` saves time and does not change the result.
    """
    inputs, outputs = [weights, _scalar(delta, w_local), start], ["columns", "count"]
    w, missed = _run("delta_medians", jax_kernels.delta_medians, w_local, inputs, outputs)
    return w, missed[0]


def incremental_medians(
    w_local: Matrix, rows: Array, before: Matrix, delta: Any, start: Vector, memory: Array
) -> tuple[Vector, Array, Array]:
    """Return the δ-coordinatewise median of a W in which few rows changed. It needs kernels.

    ``rows`` (K,) changed since the last call, and ``before`` (K, d) is what they were; ``start`` is the
    last median, and ``memory`` (d, MEMORY_WORDS) the last call's result, or −1 if nothing is known.
    The second result counts the coordinates that were not found.
    """
    share = shard_of(w_local.shape[1], w_local.size)
    inputs = [rows.astype(jnp.int32), before, _scalar(delta, w_local), start, memory]
    outputs = ["columns", "count", "memory"]
    w, missed, after = _call("incremental_medians", share, w_local, inputs, outputs)
    return share.gather(w), share.add(missed)[0], after


def _scalar(delta: Any, w_local: Any) -> Any:
    """Return δ in the type of W, in range: beyond all distances, one δ is like another."""
    xp, info = namespace(w_local, delta), np.finfo(w_local.dtype)
    return xp.asarray(xp.clip(delta, 0, info.max / 8), w_local.dtype)


def _run(
    name: str, in_jax: Callable[..., Any], w_local: Any, inputs: Any, outputs: Sequence[str]
) -> Any:
    """Run a kernel on NumPy arrays or in programs for a CPU, and the same pass in JAX elsewhere.

    Args:
        name: The kernel.
        in_jax: The same pass in JAX, with the same arguments and results.
        w_local: W.
        inputs: The other arguments, arrays or None.
        outputs: What it returns: "columns" (d,), of which cores that share the pass find a part each;
            "rows" (N,), "sum" (d,) and "count" (1,), which are added over these cores.
    """
    if isinstance(w_local, np.ndarray):
        return _run_numpy(name, w_local, inputs, outputs)

    def kernel(w_local: Matrix, *given: Array) -> tuple[Array, ...]:
        share = shard_of(w_local.shape[0 if "rows" in outputs else 1], w_local.size)
        return share.combine(_call(name, share, w_local, given, outputs), outputs)

    def plain(w_local: Matrix, *given: Array) -> tuple[Array, ...]:
        found = in_jax(
            w_local, *(x if x is None else y for x, y in zip(inputs, given, strict=True))
        )
        return found if isinstance(found, tuple) else (found,)

    given = [jnp.zeros(0, w_local.dtype) if x is None else jnp.asarray(x) for x in inputs]
    if w_local.dtype not in (jnp.float32, jnp.float64) or not (w_local.size and available()):
        return plain(w_local, *given)
    return lax.platform_dependent(w_local, *given, cpu=kernel, default=plain)


def _shapes(w_local: Any, outputs: Sequence[str], columns: int) -> list[tuple[Any, Any]]:
    n, d = w_local.shape
    float_, int_ = w_local.dtype, np.dtype(np.int32)
    shapes = {
        "columns": ((columns,), float_), "rows": ((n,), float_), "sum": ((d,), float_),
        "count": ((1,), int_), "memory": ((columns, MEMORY_WORDS), int_),
    }  # fmt: skip
    return [shapes[kind] for kind in outputs]


def _call(name: str, share: Shard, w_local: Any, inputs: Any, outputs: Sequence[str]) -> Any:
    """Call a kernel from a JAX program. A core that shares a pass does its share alone."""
    struct: Any = jax.ShapeDtypeStruct  # Untyped in JAX.
    results = [struct(*shape) for shape in _shapes(w_local, outputs, share.size)]
    in_place = {len(inputs) + 1: len(outputs) - 1} if "memory" in outputs else None
    call = jax.ffi.ffi_call(
        "fedplus", results, vmap_method="sequential", input_output_aliases=in_place
    )
    begin = jnp.asarray(share.begin, jnp.int32).reshape(1)
    size, alone = np.int64(share.size), np.int64(share.axis is not None)
    return call(w_local, begin, *inputs, kernel=name, size=size, alone=alone)


def _run_numpy(name: str, w_local: Any, inputs: Any, outputs: Sequence[str]) -> list[Any]:
    """Run a kernel on NumPy arrays; rows of W may lie apart."""
    library, dtype = _library(), w_local.dtype
    assert library is not None
    w_local = w_local if w_local.strides[1] == dtype.itemsize else np.ascontiguousarray(w_local)
    arrays = [w_local, *(x if x is None else np.ascontiguousarray(x, dtype) for x in inputs)]
    results = [np.empty(*shape) for shape in _shapes(w_local, outputs, w_local.shape[1])]
    stride = w_local.strides[0] // w_local.itemsize
    known = library.fedplus_run(
        name.encode(), w_local.itemsize == 8, *w_local.shape, stride, len(arrays), _pointers(arrays),
        len(results), _pointers(results), _machine.cores(),
    )  # fmt: skip
    if not known:
        raise RuntimeError(f"The compiled kernels have no {name}. Reinstall fedplus.")
    return results


def _pointers(arrays: list[Any]) -> Any:
    addresses = (x if x is None else x.__array_interface__["data"][0] for x in arrays)
    return (ctypes.c_void_p * len(arrays))(*addresses)
