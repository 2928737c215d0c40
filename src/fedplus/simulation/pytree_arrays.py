"""A pytree as arrays by name, for a checkpoint, and back."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from fedplus._types import Host


def to_arrays(tree: Any, prefix: str) -> dict[str, Host]:
    """A pytree's leaves by name."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {f"{prefix}/{_name(path)}": np.asarray(leaf) for path, leaf in leaves}


def from_arrays(like: Any, arrays: Mapping[str, Host], prefix: str) -> Any:
    """The pytree again, shaped as ``like``."""
    return jax.tree_util.tree_map_with_path(lambda path, _: arrays[f"{prefix}/{_name(path)}"], like)


def matches_structure(like: Any, arrays: Mapping[str, Host], prefix: str) -> bool:
    """Whether the arrays have every leaf of such a pytree, in its shape."""
    return all(
        f"{prefix}/{_name(path)}" in arrays
        and arrays[f"{prefix}/{_name(path)}"].shape == leaf.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(like)
    )


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
