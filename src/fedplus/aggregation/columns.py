"""Coordinates that are solved each by itself, in blocks of columns that stay in a CPU's cache.

On a CPU, XLA's reductions over the leading axis stride through memory; loops that add whole rows of a
block that stays in the cache run near memory speed. On a GPU the plain reductions are the fast ones.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation.shares import CACHED, cores_on, share_of

Term: TypeAlias = Callable[[Array, Array], tuple[Array, ...]]
"""(w_k, a_k) ↦ what party k adds, each coordinate by itself."""
Way: TypeAlias = Literal["sum", "max", "min"]
Reduce: TypeAlias = Callable[[Term, tuple[Way, ...]], tuple[Vector, ...]]
"""Combine a term over all parties; a way of combining for each of its outputs."""
Solve: TypeAlias = Callable[..., tuple[Vector, ...]]

GROUP = 8
"""Rows that one turn of a loop adds in one fused kernel, at most."""
WIDTHS = (528, 8208)
"""Columns of a block. No multiple of 1024: rows 4 KiB apart would compete for the same cache lines."""


def by_columns(
    solve: Solve, w_local: Matrix, weights: Vector, *vectors: Vector
) -> tuple[Vector, ...]:
    """Solve each coordinate by itself, in blocks of columns that stay in a CPU's cache.

    ``solve(reduce, *parts)`` gets its part of each vector and returns vectors as wide, which come
    back joined.
    """

    def in_blocks(w_local: Matrix, weights: Vector, *vectors: Vector) -> tuple[Vector, ...]:
        n, d = w_local.shape
        widest, cores = min(max(CACHED // n, WIDTHS[0]), WIDTHS[1]), cores_on(w_local)
        width = -(-d // (-(-d // (widest * cores)) * cores))
        count = -(-d // width)

        def at(block: Array | int) -> tuple[Vector, ...]:
            start = jnp.minimum(block * width, d - width)  # The last may overlap the one before.
            parts = [lax.dynamic_slice_in_dim(v, start, width) for v in vectors]
            return solve(_looped(w_local, weights, start, width), *parts)

        def joined(found: Matrix) -> Vector:
            every, before = share.of_all(found).ravel(), (count - 1) * width
            return jnp.concatenate([every[:before], every[before - d :]])

        if count == 1:
            return at(0)
        share = share_of(count, w_local)
        blocks = jnp.minimum(share.first + jnp.arange(share.size), count - 1)
        return tuple(joined(found) for found in lax.map(at, blocks))

    def at_once(w_local: Matrix, weights: Vector, *vectors: Vector) -> tuple[Vector, ...]:
        return solve(_plain(w_local, weights), *vectors)

    found: tuple[Vector, ...] = lax.platform_dependent(
        w_local, weights, *vectors, cpu=in_blocks, default=at_once
    )
    return found


def _plain(w_local: Matrix, weights: Vector) -> Reduce:
    combine: dict[Way, Callable[..., Array]] = {"sum": jnp.sum, "max": jnp.max, "min": jnp.min}

    def reduce(term: Term, ways: tuple[Way, ...]) -> tuple[Vector, ...]:
        terms = term(w_local, weights[:, None])
        return tuple(combine[way](t, axis=0) for way, t in zip(ways, terms, strict=True))

    return reduce


def _looped(w_local: Matrix, weights: Vector, start: Array | int, width: int) -> Reduce:
    n = w_local.shape[0]
    groups = -(-n // GROUP)
    size = -(-n // groups)
    padded = jnp.pad(weights, (0, groups * size - n))
    first = {"sum": 0.0, "max": -jnp.inf, "min": jnp.inf}
    # Comparisons rather than jnp.maximum, whose care for NaN costs as much again.
    combine: dict[Way, Callable[[Array, Array], Array]] = {
        "sum": lambda s, t: s + t,
        "max": lambda s, t: jnp.where(t > s, t, s),
        "min": lambda s, t: jnp.where(t < s, t, s),
    }

    def reduce(term: Term, ways: tuple[Way, ...]) -> tuple[Vector, ...]:
        def add_group(i: Array, sums: tuple[Vector, ...]) -> tuple[Vector, ...]:
            for k in range(size):
                # Past the last row stands that row again, with weight 0.
                row = jnp.minimum(i * size + k, n - 1)
                w_k = lax.dynamic_slice(w_local, (row, start), (1, width))[0]
                terms = zip(ways, sums, term(w_k, padded[i * size + k]), strict=True)
                sums = tuple(combine[way](s, t) for way, s, t in terms)
            return sums

        empty = tuple(jnp.full((width,), first[way], w_local.dtype) for way in ways)
        sums: tuple[Vector, ...] = lax.fori_loop(0, groups, add_group, empty)
        return sums

    return reduce
