"""Names of array shapes, and the decorator for classes of settings (frozen dataclass and JAX pytree).

This module does not import JAX: a Flower party, which is a new process for every message, does
without it and so starts a second earlier.
"""

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, dataclass_transform

import numpy as np

if TYPE_CHECKING:
    from jax import Array as Array
else:
    Array = Any

Host: TypeAlias = np.ndarray[Any, np.dtype[Any]]
"""An array of NumPy's."""
Vector: TypeAlias = Array
"""One model, raveled: shape (d,)."""
Matrix: TypeAlias = Array
"""A model a row: shape (N, d). The paper's W is the transpose."""
Layout: TypeAlias = tuple[tuple[str, int], ...]
"""Name and size of each parameter, in the order in which the model is raveled."""


def epsilon(x: Array) -> float:
    """The rounding unit of the array's entries."""
    return float(np.finfo(x.dtype).eps)


def tiny(x: Array) -> float:
    """The smallest normal number that the array's entries can be."""
    return float(np.finfo(x.dtype).tiny)


Cls = TypeVar("Cls", bound=type)


def static_field(*, default: Any = dataclasses.MISSING) -> Any:
    """A field that shapes the compiled program (a name, a function) rather than a number in it."""
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(static_field, dataclasses.field))
def settings(cls: Cls) -> Cls:
    """Make ``cls`` a frozen dataclass whose numbers are leaves of a pytree.

    So a method goes into ``jax.jit`` as an argument (another δ compiles nothing anew) and through
    ``jax.vmap`` (several δ at once). ``__post_init__`` checks what a person typed; it is not run
    again on what JAX rebuilds.
    """
    made: Any = dataclasses.dataclass(frozen=True)(cls)
    _UNREGISTERED.append(made)
    register_settings()
    return cast(Cls, made)


_UNREGISTERED: list[type] = []
"""Classes of settings that were defined before JAX was imported."""


def register_settings() -> None:
    """Register all classes of settings as JAX pytrees, if JAX is imported; else nothing needs it yet.

    ``settings`` calls this, so any module of fedplus that imports JAX and defines a class of settings
    also registers those of the modules that do without JAX.
    """
    while _UNREGISTERED and "jax" in sys.modules:
        _register(_UNREGISTERED.pop())


def _register(made: Any) -> None:
    import jax

    fields = dataclasses.fields(made)
    data = [f.name for f in fields if not f.metadata.get("static")]
    meta = [f.name for f in fields if f.metadata.get("static")]

    def flatten(obj: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        leaves = [(jax.tree_util.GetAttrKey(name), getattr(obj, name)) for name in data]
        return leaves, tuple(getattr(obj, name) for name in meta)

    def unflatten(fixed: tuple[Any, ...], leaves: Any) -> Any:
        obj = object.__new__(made)
        for name, value in zip(data + meta, (*leaves, *fixed), strict=True):
            object.__setattr__(obj, name, value)
        return obj

    jax.tree_util.register_pytree_with_keys(made, flatten, unflatten)
