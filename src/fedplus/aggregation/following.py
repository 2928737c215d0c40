"""Aggregates of a W of which a few rows change at a time: what was found before tells most of it."""

from functools import singledispatch
from typing import Any

import jax.numpy as jnp

from fedplus._types import Matrix, Vector
from fedplus.aggregation import neighbourhoods, pulled, sums
from fedplus.aggregation.base import Aggregate, Change
from fedplus.aggregation.minimise import by_blocks, minimise, of_delta_geometric
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero


@singledispatch
def memory_of(psi: AbstractPsi, w: Vector, parties: int) -> Any:
    """What ``follow`` begins with, if all of so many parties have the model w; (): it saves nothing."""
    return ()


@memory_of.register(Zero)
@memory_of.register(Anchor)
@memory_of.register(Quadratic)
def _(psi: AbstractPsi, w: Vector, parties: int) -> Any:
    return sums.nothing_known(w, parties)


@memory_of.register
def _(psi: L2, w: Vector, parties: int) -> Any:
    return pulled.nothing_known(w, parties)


@memory_of.register
def _(psi: L1, w: Vector, parties: int) -> Any:
    return neighbourhoods.nothing_known(w, parties)


@memory_of.register
def _(psi: Blocks, w: Vector, parties: int) -> Any:
    parts = {key: memory_of(psi.parts[key], part, parties) for key, part in psi.split(w).items()}
    return parts if any(memory != () for memory in parts.values()) else ()


def follow(
    psi: AbstractPsi, w_local: Matrix, start: Vector, memory: Any, change: Change
) -> tuple[Aggregate, Any]:
    """The minimiser, from where it was before, and what to remember."""
    if memory == ():
        return minimise(psi, w_local, None, start), memory
    return _follow(psi, w_local, start, memory, change)


@singledispatch
def _follow(
    psi: AbstractPsi, w_local: Matrix, start: Vector, memory: Any, change: Change
) -> tuple[Aggregate, Any]:
    raise NotImplementedError(f"{type(psi).__name__} has a memory, but nothing that follows.")


@_follow.register(Zero)
@_follow.register(Anchor)
@_follow.register(Quadratic)
def _(
    psi: AbstractPsi, w_local: Matrix, start: Vector, memory: Any, change: Change
) -> tuple[Aggregate, Any]:
    return sums.follow(w_local, memory, change)


@_follow.register
def _(
    psi: L2, w_local: Matrix, start: Vector, memory: Any, change: Change
) -> tuple[Aggregate, Any]:
    delta = jnp.asarray(psi.delta, w_local.dtype)
    found, memory = pulled.follow(w_local, delta, start, memory, change)
    return of_delta_geometric(found, delta, len(w_local)), memory


@_follow.register
def _(
    psi: L1, w_local: Matrix, start: Vector, memory: Any, change: Change
) -> tuple[Aggregate, Any]:
    delta = jnp.asarray(psi.delta, w_local.dtype)
    return neighbourhoods.follow(w_local, delta, start, memory, change)


@_follow.register
def _(
    psi: Blocks, w_local: Matrix, start: Vector, memory: Any, change: Change
) -> tuple[Aggregate, Any]:
    starts, befores, kept = psi.split(start), psi.split(change.before), {}

    def solve(pattern: str, block: Matrix) -> Aggregate:
        part, rows = psi.parts[pattern], Change(change.rows, befores[pattern])
        found, kept[pattern] = follow(part, block, starts[pattern], memory[pattern], rows)
        return found

    return by_blocks(psi, w_local, solve), kept


def told_all(memory: Any, parties: int) -> Any:
    """The same memory on all cores, which share the coordinates."""
    if isinstance(memory, dict):
        return {key: told_all(part, parties) for key, part in memory.items()}
    if isinstance(memory, neighbourhoods.Neighbourhoods):
        return neighbourhoods.told_all(memory, parties)
    return memory
