"""Conversion of a pytree of parameters to the vector that the library works on, and back."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from fedplus._types import Layout, Vector
from fedplus.check import require


class Raveled(NamedTuple):
    """A model as a vector, with the names and sizes of its parameters and the inverse conversion."""

    w: Vector
    layout: Layout
    unravel: Callable[[Vector], Any]


def ravel(params: Any) -> Raveled:
    """Concatenate all arrays of a pytree of parameters into one vector.

    Args:
        params: A pytree with at least one array.

    Raises:
        SettingError: There is no array.

    >>> import jax.numpy as jnp
    >>> flat = ravel({"head": {"bias": jnp.zeros(2), "weight": jnp.ones((3, 2))}})
    >>> flat.layout
    (('head/bias', 2), ('head/weight', 6))
    >>> flat.unravel(flat.w)["head"]["weight"].shape
    (3, 2)
    """
    params = jax.tree.map(jnp.asarray, params)
    leaves = jax.tree_util.tree_leaves_with_path(params)
    require(bool(leaves), "params", "no arrays", "a tree with at least one array")
    layout = tuple((_name(path), leaf.size) for path, leaf in leaves)
    w, unravel = ravel_pytree(params)
    return Raveled(w, layout, unravel)


def named_arrays(params: Any) -> dict[str, Any]:
    """Return the arrays of a pytree by name, in the order of ``ravel``."""
    return {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(params)}


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/") or "w"
