"""Type aliases of arrays, and ``settings``, the decorator of frozen dataclasses that are JAX pytrees.

This module does not import JAX. A Flower party is a new process for every message, and it starts a
second earlier without JAX.
"""

import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, dataclass_transform

import numpy as np

if TYPE_CHECKING:
    from jax import Array as Array
else:
    Array = Any

NumpyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
"""A NumPy array, in host memory; ``Array`` is a JAX array."""
Vector: TypeAlias = Array
"""One raveled model, of shape (d,)."""
Matrix: TypeAlias = Array
"""One model per row, of shape (N, d). The paper's W is the transpose."""
Layout: TypeAlias = tuple[tuple[str, int], ...]
"""The name and size of each parameter, in the order in which a model is raveled."""


def epsilon(x: Array) -> float:
    """Return the machine epsilon of the array's dtype."""
    return float(np.finfo(x.dtype).eps)


def tiny(x: Array) -> float:
    """Return the smallest positive normal number of the array's dtype."""
    return float(np.finfo(x.dtype).tiny)


Cls = TypeVar("Cls", bound=type)


def static_field(*, default: Any = dataclasses.MISSING) -> Any:
    """Return a field of a settings class that is static under ``jit``, such as a name or a function."""
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(static_field, dataclasses.field))
def settings(cls: Cls) -> Cls:
    """Make ``cls`` a frozen dataclass and a JAX pytree, whose leaves are its non-static fields.

    Its instances can be arguments of ``jax.jit`` (another δ does not compile again) and of ``jax.vmap``
    (several δ at once). ``__post_init__`` checks the user's values; JAX does not call it when it
    rebuilds an instance from leaves.

    Args:
        cls: A class with annotated fields. Those declared with ``static_field()`` are not leaves.

    Returns:
        The new class.

    >>> @settings
    ... class Ball:
    ...     radius: float
    >>> Ball(2.0)
    Ball(radius=2.0)
    """
    settings_class: Any = dataclasses.dataclass(frozen=True)(_with_hooks(cls))
    _UNREGISTERED.append(settings_class)
    register_settings()
    return cast(Cls, settings_class)


FIELD_HOOKS: list[Callable[[Any], None]] = []
"""Functions that ``settings`` calls with every new instance before its own checks. The module
``fedplus.schedules``, which this module must not import, adds one."""


def _with_hooks(cls: Any) -> Any:
    """Return the class, whose ``__post_init__`` now calls ``FIELD_HOOKS`` first."""
    check = getattr(cls, "__post_init__", None)

    def post_init(self: Any) -> None:
        for hook in FIELD_HOOKS:
            hook(self)
        if check is not None:
            check(self)

    cls.__post_init__ = post_init
    return cls


_UNREGISTERED: list[type] = []
"""Settings classes that are not registered with JAX yet, because JAX is not imported."""


def register_settings() -> None:
    """Register all settings classes as JAX pytrees if JAX is imported.

    ``settings`` calls this, so a module that imports JAX and defines a settings class also registers
    the classes of modules that do not import JAX.
    """
    while _UNREGISTERED and "jax" in sys.modules:
        _register(_UNREGISTERED.pop())


def _register(settings_class: Any) -> None:
    import jax

    fields = dataclasses.fields(settings_class)
    dynamic = [f.name for f in fields if not f.metadata.get("static")]
    static = [f.name for f in fields if f.metadata.get("static")]

    def flatten(obj: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        leaves = [(jax.tree_util.GetAttrKey(name), getattr(obj, name)) for name in dynamic]
        return leaves, tuple(getattr(obj, name) for name in static)

    def unflatten(static_values: tuple[Any, ...], leaves: Any) -> Any:
        obj = object.__new__(settings_class)
        for name, value in zip(dynamic + static, (*leaves, *static_values), strict=True):
            object.__setattr__(obj, name, value)
        return obj

    jax.tree_util.register_pytree_with_keys(settings_class, flatten, unflatten)
