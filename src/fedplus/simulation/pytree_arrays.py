"""Conversion between a pytree and named arrays, as a checkpoint holds them."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from fedplus._types import NumpyArray


def to_arrays(tree: Any, prefix: str) -> dict[str, NumpyArray]:
    """Return the leaves of a pytree by name: the prefix and the path of the leaf."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {f"{prefix}/{_name(path)}": np.asarray(leaf) for path, leaf in leaves}


def from_arrays(like: Any, arrays: Mapping[str, NumpyArray], prefix: str) -> Any:
    """Return a pytree with the structure of ``like`` and leaves from ``arrays``."""
    return jax.tree_util.tree_map_with_path(lambda path, _: arrays[f"{prefix}/{_name(path)}"], like)


def matches_structure(like: Any, arrays: Mapping[str, NumpyArray], prefix: str) -> bool:
    """Return whether ``arrays`` has every leaf of ``like``, with the same shape."""
    return all(
        f"{prefix}/{_name(path)}" in arrays
        and arrays[f"{prefix}/{_name(path)}"].shape == leaf.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(like)
    )


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
