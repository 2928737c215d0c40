"""Parties over several devices, or several machines: the same run, only faster or larger.

Each device trains its share of the cohort; the parties' models are spread over the devices, a share of
the rows each, where the number of parties allows it. Samples are on every device.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import require
from fedplus.work import Each

Spec: Any = jax.sharding.PartitionSpec  # This and the next are untyped in JAX.
constrained: Any = jax.lax.with_sharding_constraint


def vmap_over_mesh(mesh: Mesh) -> Each:
    """``jax.vmap`` in shares: each device runs the function for its part of the cohort."""
    (axis,) = mesh.axis_names
    rows = NamedSharding(mesh, Spec(axis))

    def each(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            k = len(jax.tree.leaves(args)[0])
            idle = -k % mesh.size

            def even(leaf: Any) -> Any:
                last = jnp.broadcast_to(leaf[-1:], (idle, *leaf.shape[1:]))
                return constrained(jnp.concatenate([leaf, last]), rows)

            found = jax.vmap(function)(*jax.tree.map(even, args))
            return jax.tree.map(lambda leaf: leaf[:k], found)

        return run

    return each


def replicate(mesh: Mesh | None, tree: Any) -> Any:
    """Arrays on every device of the mesh."""
    if mesh is None:
        return tree
    return jax.tree.map(lambda leaf: put_sharded(leaf, NamedSharding(mesh, Spec())), tree)


def shard_rows(
    mesh: Mesh | None, algorithm: AbstractAlgorithm[Any], state: Any, lanes: bool
) -> Any:
    """The state with its rows of parties over the devices, and the rest on all of them."""
    if mesh is None:
        return state
    (axis,) = mesh.axis_names

    def put(name: str, leaf: Any) -> Any:
        at = 1 if lanes else 0
        is_rows = name in algorithm.per_party and leaf.shape[at] % mesh.size == 0
        spec = Spec(*([None] * at), axis) if is_rows else Spec()
        return put_sharded(leaf, NamedSharding(mesh, spec))

    fields = state._asdict().items()
    return type(state)(**{name: jax.tree.map(partial(put, name), field) for name, field in fields})


def put_sharded(leaf: Any, sharding: jax.sharding.Sharding) -> Any:
    """One array laid out so; every process has it whole and keeps its own part."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(put_sharded(jax.random.key_data(leaf), sharding))
    given = np.asarray(leaf)
    host = given.astype(jax.dtypes.canonicalize_dtype(given.dtype), copy=False)
    return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])


def to_host(tree: Any) -> Any:
    """As NumPy arrays, also where some rows are on other machines (all processes must ask)."""

    def fetch(leaf: Any) -> Any:
        here = not isinstance(leaf, jax.Array) or leaf.is_fully_addressable
        if here or leaf.is_fully_replicated:
            return np.asarray(leaf)
        from jax.experimental.multihost_utils import process_allgather

        return process_allgather(leaf, tiled=True)

    return jax.tree.map(fetch, tree)


def require_mesh(mesh: Any) -> None:
    """Require a mesh of one axis, or none."""
    ok = mesh is None or (isinstance(mesh, Mesh) and len(mesh.axis_names) == 1)
    require(
        ok, "mesh", repr(mesh), 'a jax.sharding.Mesh with one axis, e.g. Mesh(jax.devices(), "p")'
    )
