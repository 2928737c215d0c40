"""Passes over W in the shapes that are fast on each platform.

On a CPU, XLA's reductions over the leading axis stride through memory and its row sums are scalar;
products, and loops that add whole rows of a block that stays in the cache, run near memory speed. On
a GPU the plain reductions are the fast ones.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector

Term: TypeAlias = Callable[[Array, Array], tuple[Array, ...]]
"""(w_k, a_k) ↦ what party k adds, each coordinate by itself."""
Way: TypeAlias = Literal["sum", "max", "min"]
Reduce: TypeAlias = Callable[[Term, tuple[Way, ...]], tuple[Vector, ...]]
"""Combine a term over all parties; a way of combining for each of its outputs."""
Solve: TypeAlias = Callable[..., tuple[Vector, ...]]

GROUP = 8
"""Rows that one turn of a loop adds in one fused kernel, at most."""
CACHED = 2**17
"""Entries of a block, at most: they are to stay in a core's cache."""
WIDTHS = (528, 8208)
"""Columns of a block. No multiple of 1024: rows 4 KiB apart would compete for the same cache lines."""
LANES = 16
"""Stretches of a row that are summed side by side."""


def each_weight(w_local: Matrix, weights: Vector | None) -> Vector:
    """The parties' weights; None: 1 each."""
    return jnp.ones_like(w_local[:, 0]) if weights is None else weights


def weighted_mean(w_local: Matrix, weights: Vector) -> Vector:
    """Σ_k p_k w_k with p the normalised weights: one product, one pass."""
    return jnp.matmul(weights / jnp.sum(weights), w_local, precision=lax.Precision.HIGHEST)


def distances(w_local: Matrix, w: Vector) -> Vector:
    """‖w_k − w‖₂ for each party, from the differences (no cancellation), in one pass."""

    def plain(w_local: Matrix, w: Vector) -> Vector:
        return jnp.sum((w_local - w) ** 2, axis=1)

    def in_lanes(w_local: Matrix, w: Vector) -> Vector:
        width = w.shape[0] // LANES
        whole = width * LANES
        # Whole stretches of columns added to each other, because XLA sums a long row one entry
        # after the other; and a product to finish, because XLA would redo a plain sum in each
        # expression that uses its result.
        sums = sum(
            (w_local[:, i : i + width] - w[i : i + width]) ** 2 for i in range(0, whole, width)
        )
        return sums @ jnp.ones((width,), w.dtype) + plain(w_local[:, whole:], w[whole:])

    if w.shape[0] < 4 * LANES:
        return jnp.sqrt(plain(w_local, w))
    return jnp.sqrt(lax.platform_dependent(w_local, w, cpu=in_lanes, default=plain))


def by_columns(
    solve: Solve, w_local: Matrix, weights: Vector, *vectors: Vector
) -> tuple[Vector, ...]:
    """Solve each coordinate by itself, in blocks of columns that stay in a CPU's cache.

    ``solve(reduce, *parts)`` gets its part of each vector and returns vectors as wide, which come
    back joined.
    """

    def in_blocks(w_local: Matrix, weights: Vector, *vectors: Vector) -> tuple[Vector, ...]:
        n, d = w_local.shape
        count = -(-d // min(max(CACHED // n, WIDTHS[0]), WIDTHS[1]))
        width = -(-d // count)

        def at(start: Array | int) -> tuple[Vector, ...]:
            parts = [lax.dynamic_slice_in_dim(v, start, width) for v in vectors]
            return solve(_looped(w_local, weights, start, width), *parts)

        def fill(i: Array, filled: tuple[Vector, ...]) -> tuple[Vector, ...]:
            start = jnp.minimum(i * width, d - width)  # The last block may overlap the one before.
            return tuple(
                lax.dynamic_update_slice_in_dim(whole, part, start, 0)
                for whole, part in zip(filled, at(start), strict=True)
            )

        if count == 1:
            return at(0)
        empty = tuple(jnp.zeros((d,), s.dtype) for s in jax.eval_shape(at, 0))
        filled: tuple[Vector, ...] = lax.fori_loop(0, count, fill, empty)
        return filled

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
