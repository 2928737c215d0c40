"""One run on several devices or machines, for ``simulate(..., mesh=...)``.

Each device trains its share of the cohort. The rows of the parties' models are sharded over the devices
if the number of parties is a multiple of the number of devices. All devices have all samples.
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
with_sharding_constraint: Any = jax.lax.with_sharding_constraint


def vmap_over_mesh(mesh: Mesh) -> Each:
    """Return a ``jax.vmap`` in which each device runs the function for its share of the cohort."""
    (axis,) = mesh.axis_names
    rows = NamedSharding(mesh, Spec(axis))

    def each(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            k = len(jax.tree.leaves(args)[0])
            padding = -k % mesh.size

            def pad_and_shard(leaf: Any) -> Any:
                last = jnp.broadcast_to(leaf[-1:], (padding, *leaf.shape[1:]))
                return with_sharding_constraint(jnp.concatenate([leaf, last]), rows)

            results = jax.vmap(function)(*jax.tree.map(pad_and_shard, args))
            return jax.tree.map(lambda leaf: leaf[:k], results)

        return run

    return each


def replicate(mesh: Mesh | None, tree: Any) -> Any:
    """Return the arrays as replicas on every device of the mesh."""
    if mesh is None:
        return tree
    return jax.tree.map(lambda leaf: put_sharded(leaf, NamedSharding(mesh, Spec())), tree)


def shard_rows(
    mesh: Mesh | None, algorithm: AbstractAlgorithm[Any], state: Any, has_lanes: bool
) -> Any:
    """Return the state with the rows of parties sharded over the mesh and the rest replicated."""
    if mesh is None:
        return state
    (axis,) = mesh.axis_names

    def put(name: str, leaf: Any) -> Any:
        row_axis = 1 if has_lanes else 0
        is_sharded = name in algorithm.per_party and leaf.shape[row_axis] % mesh.size == 0
        spec = Spec(*([None] * row_axis), axis) if is_sharded else Spec()
        return put_sharded(leaf, NamedSharding(mesh, spec))

    fields = state._asdict().items()
    return type(state)(**{name: jax.tree.map(partial(put, name), field) for name, field in fields})


def put_sharded(leaf: Any, sharding: jax.sharding.Sharding) -> Any:
    """Return one array with this sharding; every process passes the whole array and keeps its part."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(put_sharded(jax.random.key_data(leaf), sharding))
    array = np.asarray(leaf)
    host = array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
    return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])


def to_host(tree: Any) -> Any:
    """Return NumPy arrays, also of rows on other machines; all processes must call this together."""

    def fetch(leaf: Any) -> Any:
        is_local = not isinstance(leaf, jax.Array) or leaf.is_fully_addressable
        if is_local or leaf.is_fully_replicated:
            return np.asarray(leaf)
        from jax.experimental.multihost_utils import process_allgather

        return process_allgather(leaf, tiled=True)

    return jax.tree.map(fetch, tree)


def require_mesh(mesh: Any) -> None:
    """Require a mesh with one axis, or None."""
    ok = mesh is None or (isinstance(mesh, Mesh) and len(mesh.axis_names) == 1)
    require(
        ok, "mesh", repr(mesh), 'a jax.sharding.Mesh with one axis, e.g. Mesh(jax.devices(), "p")'
    )
