"""A CPU's cores share the parties of a round.

XLA splits one product among threads, which for small models costs more than it gains. Here each core is
a device that trains parties of its own and learns the others' models at the end of their steps. Passes
over a large W are shared, too (``_cores.py``); all else, every core does for itself. On two
cores that is up to twice as fast.
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
CACHED = 2**17
"""Entries that stay in a core's cache."""
PATIENCE = {
    "xla_cpu_collective_call_warn_stuck_timeout_seconds": 600,
    "xla_cpu_collective_call_terminate_timeout_seconds": 10**9,
}
"""A core that has done its share waits for the others. XLA would end the process after a minute."""

UNTRIED = (0, 12)
"""The first JAX of which it is not known that it has these settings: XLA ends over one it has not."""


def create_cpu_devices() -> None:
    """Make every core a device of JAX's, where JAX has not begun and nobody has said otherwise."""
    config: Any = jax.config
    flags = os.environ.get("XLA_FLAGS", "")
    said = "device_count" in flags or config.jax_num_cpu_devices != -1
    if said or jax.__version_info__ >= UNTRIED:
        return
    with suppress(RuntimeError):  # It has begun, and stays with the devices that it has.
        config.update("jax_num_cpu_devices", _machine.cores())
        more = [f"--{name}={seconds}" for name, seconds in PATIENCE.items() if name not in flags]
        os.environ["XLA_FLAGS"] = " ".join([flags, *more]).strip()


def devices_for(asked: int | Literal["auto"], cohort: int) -> Mesh | None:
    """Devices for so many parties a round; None: one is enough."""
    whole = isinstance(asked, int) and not isinstance(asked, bool) and asked >= 1
    require(whole or asked == "auto", "cores", repr(asked), 'a whole number ≥ 1, or "auto"')
    if asked == 1 or jax.default_backend() != "cpu" or jax.process_count() > 1:
        return None
    patient = all(name in os.environ.get("XLA_FLAGS", "") for name in PATIENCE)
    there = jax.local_devices() if patient or asked != "auto" else jax.local_devices()[:1]
    require(
        asked == "auto" or asked <= len(there), "cores", asked, f"at most {len(there)}",
        "JAX has so many devices. Before it computes anything, jax.config.update"
        '("jax_num_cpu_devices", n) gives it n.',
    )  # fmt: skip
    most = len(there) if asked == "auto" else int(asked)
    count = fewest_devices(cohort, most)
    return Mesh(np.array(there[:count]), (AXIS,)) if count > 1 else None


def fewest_devices(parties: int, most: int) -> int:
    """The least number of cores, of so many, with which nobody's share grows.

    >>> fewest_devices(10, 8)  # With eight, too, somebody has two.
    5
    """
    share = -(-parties // most)
    return -(-parties // share)


def map_in_shards(mesh: Mesh, inner: Each) -> Each:
    """Within a program that every core runs: each does its share, and all get all results."""

    def first_replica(function: Callable[..., Any], args: Any, party: Array) -> Any:
        return function(*jax.tree.map(lambda leaf: jnp.asarray(leaf)[party], args))

    def each(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            parties = len(jax.tree.leaves(args)[0])
            share = -(-parties // mesh.size)
            first = lax.axis_index(AXIS) * share
            mine = jnp.minimum(first + jnp.arange(share), parties - 1)
            found = inner(partial(first_replica, function, args))(mine)
            return all_gather(found, parties)

        return run

    return each


def all_gather(found: Any, parties: int) -> Any:
    """Each core's share of the results, a row a party, on all cores."""
    leaves, how = jax.tree.flatten(found)
    small = sum(leaf.size for leaf in leaves) <= CACHED
    if len(leaves) <= 1 or not small:
        return jax.tree.map(lambda leaf: lax.all_gather(leaf, AXIS, tiled=True)[:parties], found)
    # All at once: what takes the time is that cores wait for each other.
    every = lax.all_gather(packing.concatenate_words(leaves), AXIS)
    cuts = packing.split_points((leaf.shape, leaf.dtype) for leaf in leaves)
    parts = jnp.split(every, cuts, axis=1)
    told = []
    for part, leaf in zip(parts, leaves, strict=True):
        shape = len(part) * len(leaf), *leaf.shape[1:]
        told.append(packing.from_words(part, shape, leaf.dtype)[:parties])
    return jax.tree.unflatten(how, told)


def share_read_only(mesh: Mesh, tree: Any) -> Any:
    """Arrays that no core writes to: all cores read them from the same memory."""
    everywhere = NamedSharding(mesh, Spec())
    return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf), everywhere), tree)


def run_on_all(mesh: Mesh | None, program: Callable[..., Any]) -> Callable[..., Any]:
    """Run a program on every core, with the same arguments and results on each of them."""
    if mesh is None:
        return program

    def shared(*args: Any) -> Any:
        with split_among(AXIS, mesh.size):
            return program(*args)

    # Every core finds the same: nothing but all_gather mixes what they do.
    mapped: Any = jax.shard_map(
        shared, mesh=mesh, in_specs=Spec(), out_specs=Spec(), check_vma=False
    )
    return mapped  # type: ignore[no-any-return]


def run_rounds_on_all(
    mesh: Mesh | None, program: Callable[..., Any], state: Any
) -> Callable[..., Any]:
    """Run rounds on every core.

    Args:
        mesh: The cores; None: this one alone.
        program: Takes inputs, lane, state, begin and end; returns the next state and the figures.
        state: A state, or its shapes. Its memory differs from core to core and has one more leading
            axis outside of the program.
    """
    if mesh is None:
        return program

    def shared(inputs: Any, lane: Any, state: Any, *rounds: Any) -> Any:
        with split_among(AXIS, mesh.size):
            state, figures = program(inputs, lane, _memory(state, lambda x: x[0]), *rounds)
        return _memory(state, lambda x: x[None]), figures

    specs = _memory(jax.tree.map(lambda _: Spec(), state), lambda _: Spec(AXIS))
    mapped: Any = jax.shard_map(
        shared, mesh=mesh, in_specs=(Spec(), Spec(), specs, Spec(), Spec()),
        out_specs=(specs, Spec()), check_vma=False,
    )  # fmt: skip
    return mapped  # type: ignore[no-any-return]


def init_on_all(mesh: Mesh, first: Callable[[], Any]) -> Any:
    """Make the first state on every core."""

    def shared() -> Any:
        with split_among(AXIS, mesh.size):
            return _memory(first(), lambda x: x[None])

    specs = _memory(jax.tree.map(lambda _: Spec(), jax.eval_shape(first)), lambda _: Spec(AXIS))
    return jax.shard_map(shared, mesh=mesh, in_specs=(), out_specs=specs, check_vma=False)()


def _memory(state: Any, change: Callable[[Any], Any]) -> Any:
    """Change the arrays of the state's memory, if it has one."""
    memory = getattr(state, "memory", ())
    if memory == ():
        return state
    is_leaf = lambda leaf: isinstance(leaf, Spec)  # noqa: E731
    return state._replace(memory=jax.tree.map(change, memory, is_leaf=is_leaf))


def without_memory(state: Any) -> Any:
    """Return the state without the memory of the aggregation, so that W may be replaced."""
    return state._replace(memory=()) if hasattr(state, "memory") else state


def first_replica(mesh: Mesh | None, tree: Any) -> Any:
    """The arrays as the first core has them."""
    if mesh is None:
        return tree
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
