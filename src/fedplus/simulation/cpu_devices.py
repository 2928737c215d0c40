"""CPU cores as JAX devices that share the parties of a round.

XLA splits one matrix product among threads, which for small models costs more than it gains. Here each
core is a device that trains its own share of the cohort; after the local steps all cores gather the
models of all parties. Passes over a large W are shared, too (``fedplus/_spmd.py``); every core repeats
the rest of the round for itself. On two cores this is up to twice as fast.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding

from fedplus import _machine
from fedplus._spmd import split_among
from fedplus._types import Array
from fedplus.check import require
from fedplus.simulation import packing
from fedplus.work import Each

Spec: Any = jax.sharding.PartitionSpec  # Untyped in JAX.
AXIS = "cores"
CACHE_ENTRIES = 2**17
"""Number of entries that stay in a core's cache."""
COLLECTIVE_TIMEOUTS = {
    "xla_cpu_collective_call_warn_stuck_timeout_seconds": 600,
    "xla_cpu_collective_call_terminate_timeout_seconds": 10**9,
}
"""A core that has done its share waits for the others; by default XLA aborts after a minute."""

FIRST_UNTESTED_JAX = (0, 12)
"""XLA aborts on flags that it does not know, so they are not set for JAX versions from this one on."""


def create_cpu_devices() -> None:
    """Make every core a JAX device, unless JAX is initialised or the user has set a device count."""
    config: Any = jax.config
    flags = os.environ.get("XLA_FLAGS", "")
    is_set_by_user = "device_count" in flags or config.jax_num_cpu_devices != -1
    if is_set_by_user or jax.__version_info__ >= FIRST_UNTESTED_JAX:
        return
    with suppress(RuntimeError):  # JAX is initialised and keeps the devices that it has.
        config.update("jax_num_cpu_devices", _machine.core_count())
        timeouts = COLLECTIVE_TIMEOUTS.items()
        more = [f"--{name}={seconds}" for name, seconds in timeouts if name not in flags]
        os.environ["XLA_FLAGS"] = " ".join([flags, *more]).strip()


def make_cpu_mesh(cores: int | Literal["auto"], cohort: int) -> Mesh | None:
    """Return a mesh of CPU devices for a cohort of this size, or None if one device is enough.

    Args:
        cores: The ``cores`` argument of ``simulate``.
        cohort: K, the number of parties in a round.

    Raises:
        SettingError: ``cores`` is not a whole number ≥ 1 or "auto", or JAX has fewer devices.
    """
    is_whole = isinstance(cores, int) and not isinstance(cores, bool) and cores >= 1
    require(is_whole or cores == "auto", "cores", repr(cores), 'a whole number ≥ 1, or "auto"')
    if cores == 1 or jax.default_backend() != "cpu" or jax.process_count() > 1:
        return None
    has_timeouts = all(name in os.environ.get("XLA_FLAGS", "") for name in COLLECTIVE_TIMEOUTS)
    devices = jax.local_devices()
    if cores == "auto" and not has_timeouts:
        devices = devices[:1]
    require(
        cores == "auto" or cores <= len(devices), "cores", cores, f"at most {len(devices)}",
        "This is the number of JAX's devices. To have n of them, call "
        'jax.config.update("jax_num_cpu_devices", n) before JAX computes anything.',
    )  # fmt: skip
    most = len(devices) if cores == "auto" else int(cores)
    count = fewest_devices(cohort, most)
    return Mesh(np.array(devices[:count]), (AXIS,)) if count > 1 else None


def fewest_devices(parties: int, most: int) -> int:
    """Return the smallest number of devices with which no device has more parties than with ``most``.

    >>> fewest_devices(10, 8)  # With eight devices, too, the largest share is two parties.
    5
    """
    share = -(-parties // most)
    return -(-parties // share)


def map_in_shards(mesh: Mesh, inner: Each) -> Each:
    """Return a map over the cohort in which each core does its share and receives all results.

    Args:
        mesh: The cores. All of them must run the program that calls the map.
        inner: How a core maps the function over its own share.
    """

    def apply_to_party(function: Callable[..., Any], args: Any, party: Array) -> Any:
        return function(*jax.tree.map(lambda leaf: jnp.asarray(leaf)[party], args))

    def each(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            parties = len(jax.tree.leaves(args)[0])
            share = -(-parties // mesh.size)
            first = lax.axis_index(AXIS) * share
            own_parties = jnp.minimum(first + jnp.arange(share), parties - 1)
            results = inner(partial(apply_to_party, function, args))(own_parties)
            return all_gather(results, parties)

        return run

    return each


def all_gather(results: Any, parties: int) -> Any:
    """Return the results of all cores, one row per party, on every core."""
    leaves, tree = jax.tree.flatten(results)
    is_small = sum(leaf.size for leaf in leaves) <= CACHE_ENTRIES
    if len(leaves) <= 1 or not is_small:
        return jax.tree.map(lambda leaf: lax.all_gather(leaf, AXIS, tiled=True)[:parties], results)
    # One exchange for all arrays: most of its time is waiting for the other cores.
    every = lax.all_gather(packing.concatenate_words(leaves), AXIS)
    cuts = packing.split_points((leaf.shape, leaf.dtype) for leaf in leaves)
    parts = jnp.split(every, cuts, axis=1)
    gathered = []
    for part, leaf in zip(parts, leaves, strict=True):
        shape = len(part) * len(leaf), *leaf.shape[1:]
        gathered.append(packing.from_words(part, shape, leaf.dtype)[:parties])
    return jax.tree.unflatten(tree, gathered)


def share_read_only(mesh: Mesh, tree: Any) -> Any:
    """Return arrays that all cores read from the same memory; no core may write to them."""
    everywhere = NamedSharding(mesh, Spec())
    return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf), everywhere), tree)


def run_on_all_cores(mesh: Mesh | None, program: Callable[..., Any]) -> Callable[..., Any]:
    """Return a program that every core runs, with the same arguments and the same results."""
    if mesh is None:
        return program

    def shared(*args: Any) -> Any:
        with split_among(AXIS, mesh.size):
            return program(*args)

    # No replication check: only all_gather exchanges data, so every core has the same results.
    mapped: Any = jax.shard_map(
        shared, mesh=mesh, in_specs=Spec(), out_specs=Spec(), check_vma=False
    )
    return mapped  # type: ignore[no-any-return]


def run_rounds_on_all_cores(
    mesh: Mesh | None, program: Callable[..., Any], state: Any
) -> Callable[..., Any]:
    """Return a program that runs rounds on every core.

    Args:
        mesh: The cores, or None for one core.
        program: Takes inputs, lane, state, begin and end; returns the next state and the log.
        state: A ``RunState``, or its shapes. The aggregator's memory in it differs between cores and
            has an additional leading axis outside of the program.
    """
    if mesh is None:
        return program

    def shared(inputs: Any, lane: Any, state: Any, *rounds: Any) -> Any:
        with split_among(AXIS, mesh.size):
            state, log = program(inputs, lane, _map_memory(state, lambda x: x[0]), *rounds)
        return _map_memory(state, lambda x: x[None]), log

    specs = _map_memory(jax.tree.map(lambda _: Spec(), state), lambda _: Spec(AXIS))
    mapped: Any = jax.shard_map(
        shared, mesh=mesh, in_specs=(Spec(), Spec(), specs, Spec(), Spec()),
        out_specs=(specs, Spec()), check_vma=False,
    )  # fmt: skip
    return mapped  # type: ignore[no-any-return]


def init_on_all_cores(mesh: Mesh, init: Callable[[], Any]) -> Any:
    """Return the initial state, which every core makes for itself."""

    def shared() -> Any:
        with split_among(AXIS, mesh.size):
            return _map_memory(init(), lambda x: x[None])

    shapes = jax.eval_shape(init)
    specs = _map_memory(jax.tree.map(lambda _: Spec(), shapes), lambda _: Spec(AXIS))
    return jax.shard_map(shared, mesh=mesh, in_specs=(), out_specs=specs, check_vma=False)()


def _map_memory(state: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to the arrays of the aggregator's memory, if the method's state has one."""
    memory = getattr(state.method, "memory", ())
    if memory == ():
        return state
    is_leaf = lambda leaf: isinstance(leaf, Spec)  # noqa: E731
    memory = jax.tree.map(function, memory, is_leaf=is_leaf)
    return state._replace(method=state.method._replace(memory=memory))


def without_memory(state: Any) -> Any:
    """Return the state without the aggregator's memory, so that it stays valid if W is replaced."""
    return state._replace(memory=()) if hasattr(state, "memory") else state


def first_replica(mesh: Mesh | None, tree: Any) -> Any:
    """Return the arrays as the first core has them."""
    if mesh is None:
        return tree
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
