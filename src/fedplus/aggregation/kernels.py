"""Passes over W: compiled kernels on a CPU where they are installed, and else the same passes in JAX.

This is the only module that knows whether the kernels of ``csrc/kernels.cc`` are there. A pass takes a
NumPy array or a JAX array (also a traced one) and returns arrays of the same kind:

- NumPy arrays go to the kernels directly, without JAX. ``as_input`` turns them into JAX arrays where there
  are no kernels.
- JAX arrays go to the kernels through XLA's foreign function interface (FFI) if the program runs on a CPU.
  Cores that share a program also share its passes (see ``sharing``).

The environment variable ``FEDPLUS_KERNELS`` decides: ``auto`` (default) uses kernels if it can, ``off``
never, ``require`` fails without them.
"""

import ctypes
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedplus import _machine
from fedplus._check import SettingError, require
from fedplus._types import Array, Host, Matrix, Vector
from fedplus.aggregation import jax_passes
from fedplus.aggregation.sharing import Share, share_of

LIBRARY = Path(__file__).with_name("_kernels.so")
HANDLERS = (
    "weighted_sum", "pulls", "medians", "delta_medians", "incremental_medians", "few_median",
)  # fmt: skip
FEW = 16
"""Models up to which ``few_median`` finds the geometric median from their Gram matrix."""
ROOM = 48
"""Entries that ``incremental_medians`` lists per column."""

_ENABLED: ContextVar[bool] = ContextVar("kernels", default=True)


class KernelWarning(UserWarning):
    """The compiled kernels are there but cannot be used."""


@contextmanager
def disabled() -> Iterator[None]:
    """Use JAX alone in programs traced inside, such as ones whose W is spread over several devices."""
    token = _ENABLED.set(False)
    try:
        yield
    finally:
        _ENABLED.reset(token)


def available() -> bool:
    """Return whether passes may use the kernels here."""
    return _ENABLED.get() and _library() is not None


@cache
def _library() -> ctypes.CDLL | None:
    """Load the kernels and register them with XLA; None if there are none.

    Raises:
        SettingError: ``FEDPLUS_KERNELS`` is unknown, or requires kernels that cannot be loaded.
    """
    mode = os.environ.get("FEDPLUS_KERNELS", "auto")
    require(mode in ("auto", "off", "require"), "FEDPLUS_KERNELS", mode, "auto, off or require")
    if mode == "off":
        return None
    advice = "Install fedplus on a machine with a C++ compiler, or set FEDPLUS_KERNELS=auto."
    if not LIBRARY.exists():
        require(mode == "auto", "FEDPLUS_KERNELS", "require", "auto: no kernels are built", advice)
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
        for name in HANDLERS:
            target = jax.ffi.pycapsule(getattr(library, f"fedplus_{name}"))
            jax.ffi.register_ffi_target(f"fedplus_{name}", target, platform="cpu")
    except Exception as error:  # Whatever XLA or the loader objects to, JAX can take over.
        reason = str(error).splitlines()[0]
        if mode == "require":
            raise SettingError(f"The compiled kernels cannot be used: {reason}. {advice}") from error
        warnings.warn(
            f"The compiled kernels do not fit this JAX ({reason}); JAX takes over. Results are the "
            "same, aggregation is slower. Reinstalling fedplus builds them anew.",
            KernelWarning, stacklevel=2,
        )  # fmt: skip
        return None
    return library


def as_input(w_local: Any) -> Any:
    """Return W as a NumPy array if kernels take it as it is, and else as a JAX array."""
    if not isinstance(w_local, jax.Array):
        w_local = np.asarray(w_local)
        if w_local.dtype.kind in "biu":
            w_local = w_local.astype(jax.dtypes.canonicalize_dtype(float))
        native = w_local.dtype in (np.float32, np.float64) and w_local.dtype.isnative
        if w_local.ndim == 2 and native and w_local.size and available():
            return np.ascontiguousarray(w_local)
    array = jnp.asarray(w_local)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)


def namespace(w_local: Any) -> Any:
    """Return ``numpy`` or ``jax.numpy``, whichever W is an array of."""
    return np if isinstance(w_local, np.ndarray) else jnp


def weighted_sum(w_local: Any, p: Any) -> Any:
    """Σ_k p_k w_k, (d,)."""
    if isinstance(w_local, np.ndarray):
        out = np.empty(w_local.shape[1], w_local.dtype)
        _call("weighted_sum", w_local, p, _threads(), out)
        return out

    def kernel(w_local: Matrix, p: Vector) -> Vector:
        share = share_of(w_local.shape[1], w_local)
        out = _shape(share.size, w_local)
        return share.gather(_ffi("weighted_sum", out, share)(w_local, p, _begin(share)))

    return _on_cpu(kernel, jax_passes.weighted_sum, w_local, p)


def pulls(w_local: Any, weights: Any, delta: Any, unit: Any, at: Any) -> tuple[Any, Any]:
    """Distances r_k = ‖w_k − at‖, (N,), and Σ_k a_k·unit / max(r_k, δ)·(w_k − at), (d,).

    ``unit`` only keeps numbers in range: a typical distance is a good choice.
    """
    if isinstance(w_local, np.ndarray):
        r, pull = np.empty(len(w_local), w_local.dtype), np.empty_like(at)
        number = ctypes.c_double
        _call("pulls", w_local, weights, number(delta), number(unit), at, _threads(), r, pull)
        return r, pull

    def kernel(w_local: Matrix, *args: Array) -> tuple[Array, Array]:
        n, d = w_local.shape
        share = share_of(n, w_local)
        call = _ffi("pulls", (_shape(n, w_local), _shape(d, w_local)), share, size=share.size)
        found = jnp.concatenate(call(w_local, *args, _begin(share)))
        r, pull = jnp.split(share.add(found), [n])
        return r, pull

    delta, unit = _radius(delta, w_local), jnp.asarray(unit, w_local.dtype)
    found: tuple[Any, Any] = _on_cpu(kernel, jax_passes.pulls, w_local, weights, delta, unit, at)
    return found


def medians(w_local: Any, weights: Any | None) -> Any:
    """The coordinatewise median, (d,): the middle of all minimisers of Σ_k a_k |w_k − w|."""
    if isinstance(w_local, np.ndarray):
        out = np.empty(w_local.shape[1], w_local.dtype)
        _call("medians", w_local, weights, _threads(), out)
        return out
    each = each_weight(w_local, weights)

    def kernel(w_local: Matrix, each: Vector) -> Vector:
        share = share_of(w_local.shape[1], w_local)
        out, weighted = _shape(share.size, w_local), int(weights is not None)
        call = _ffi("medians", out, share, weighted=weighted)
        return share.gather(call(w_local, each, _begin(share)))

    return _on_cpu(kernel, jax_passes.medians, w_local, each)


def delta_medians(
    w_local: Any, weights: Any | None, delta: Any, start: Any | None
) -> tuple[Any, Any]:
    """The δ-coordinatewise median, (d,), and how many of its coordinates are not found.

    It is the root of Σ_k a_k clip(w_k − w, −δ, δ) in each coordinate; where the roots form an interval,
    its point nearest to the mean. ``start`` saves time and does not change the result.
    """
    if isinstance(w_local, np.ndarray):
        out, left = (np.empty(w_local.shape[1], w_local.dtype) for _ in range(2))
        begin = None if start is None else np.ascontiguousarray(start, w_local.dtype)
        number = ctypes.c_double(delta)
        _call("delta_medians", w_local, weights, number, begin, _threads(), out, left)
        return out, np.count_nonzero(left)
    each = each_weight(w_local, weights)
    delta = jnp.maximum(_radius(delta, w_local), jnp.finfo(w_local.dtype).tiny)

    def kernel(w_local: Matrix, each: Vector, delta: Array, begin: Vector) -> tuple[Array, Array]:
        share = share_of(w_local.shape[1], w_local)
        out = _shape(share.size, w_local)
        flags = {"weighted": int(weights is not None), "started": int(start is not None)}
        counted = jax.ShapeDtypeStruct((1,), jnp.int32)
        call = _ffi("delta_medians", (out, out, counted), share, **flags)
        found, left, _ = call(w_local, each, delta, begin, _begin(share))
        return share.gather(found), jnp.count_nonzero(share.gather(left))

    def in_jax(w_local: Matrix, each: Vector, delta: Array, begin: Vector) -> tuple[Array, Array]:
        return jax_passes.delta_medians(w_local, each, delta), jnp.array(0)

    begin = w_local[0] if start is None else jnp.asarray(start, w_local.dtype)
    found: tuple[Any, Any] = _on_cpu(kernel, in_jax, w_local, each, delta, begin)
    return found


def incremental_medians(
    w_local: Matrix, rows: Array, before: Matrix, delta: Array, start: Vector, memory: tuple[Any, ...]
) -> tuple[Vector, Array, tuple[Any, ...]]:
    """The δ-coordinatewise median of a W in which only some rows changed; δ = 0: the median.

    Args:
        w_local: W.
        rows: (K,), the rows that differ from the last call.
        before: (K, d), what these rows were then.
        delta: δ.
        start: The last median.
        memory: What the last call returned; see ``incremental``.

    Returns:
        The median, how many stretches of columns were read as a whole, and the new memory.
    """
    share = share_of(w_local.shape[1], w_local)
    kept = tuple(jax.ShapeDtypeStruct(part.shape, part.dtype) for part in memory)
    results = (_shape(share.size, w_local), jax.ShapeDtypeStruct((1,), jnp.int32), *kept)
    aliases = {6 + i: 2 + i for i in range(len(memory))}
    call = _ffi("incremental_medians", results, share, input_output_aliases=aliases)
    found, read, *after = call(
        w_local, rows.astype(jnp.int32), before, delta, start, _begin(share), *memory
    )
    return share.gather(found), read[0], tuple(after)


def few_median(w_local: Any, weights: Any, delta: Any) -> Any | None:
    """A point near the δ-geometric median of at most ``FEW`` models; None without kernels."""
    if len(w_local) > FEW or not available():
        return None
    if isinstance(w_local, np.ndarray):
        out = np.empty(w_local.shape[1], w_local.dtype)
        _call("few_median", w_local, weights, ctypes.c_double(delta), _threads(), out)
        return out

    def kernel(w_local: Matrix, weights: Vector, delta: Array) -> Vector:
        share = share_of(1, w_local)
        found: Vector = _ffi("few_median", _shape(w_local.shape[1], w_local), share)(
            w_local, weights, delta
        )
        return found

    def in_jax(w_local: Matrix, weights: Vector, delta: Array) -> Vector:
        return jax_passes.medians(w_local, weights)

    return _on_cpu(kernel, in_jax, w_local, weights, _radius(delta, w_local))


def each_weight(w_local: Any, weights: Any | None) -> Any:
    """The parties' weights, (N,); 1 each if none are given."""
    return namespace(w_local).ones(len(w_local), w_local.dtype) if weights is None else weights


def _on_cpu(kernel: Callable[..., Any], in_jax: Callable[..., Any], *args: Any) -> Any:
    """Call the kernel in programs for a CPU, and the same pass in JAX elsewhere."""
    floats = args[0].dtype in (jnp.float32, jnp.float64)
    if not (available() and floats and args[0].size):
        return in_jax(*args)
    return lax.platform_dependent(*args, cpu=kernel, default=in_jax)


def _ffi(name: str, results: Any, share: Share, input_output_aliases: Any = None, **flags: int) -> Any:
    """Return the call of a handler of ``csrc/kernels.cc``.

    A core that shares the pass works alone on its share; else XLA's threads share it.
    """
    call = jax.ffi.ffi_call(
        f"fedplus_{name}", results, vmap_method="sequential",
        input_output_aliases=input_output_aliases,
    )  # fmt: skip
    numbers = {"shared": share.axis is not None, **flags}
    return partial(call, **{key: np.int64(value) for key, value in numbers.items()})


def _radius(delta: Any, like: Any) -> Array:
    """δ in the type of W, finite: beyond all distances, one δ is like another."""
    return jnp.minimum(jnp.asarray(delta, like.dtype), jnp.finfo(like.dtype).max / 8)


def _begin(share: Share) -> Array:
    return jnp.asarray(share.begin, jnp.int32).reshape(1)


def _shape(size: int, like: Any) -> Any:
    return jax.ShapeDtypeStruct((size,), like.dtype)


def _threads() -> ctypes.c_int64:
    return ctypes.c_int64(_machine.cores())


def _call(name: str, w_local: Host, *args: Any) -> None:
    """Call a C function of ``csrc/kernels.cc`` on NumPy arrays."""
    library = _library()
    assert library is not None
    function = getattr(library, f"fedplus_{name}_{'f32' if w_local.dtype == np.float32 else 'f64'}")
    n, d = w_local.shape
    shape = (ctypes.c_int64(size) for size in (n, d, w_local.strides[0] // w_local.itemsize))
    function(_pointer(w_local), *shape, *map(_pointer, args))


def _pointer(arg: Any) -> Any:
    return ctypes.c_void_p(arg.ctypes.data) if isinstance(arg, np.ndarray) else arg
