"""Passes over the rows of W in the shapes that are fast on each platform.

On a CPU, XLA's reductions over the leading axis stride through memory and its row sums are scalar;
products run near memory speed. On a GPU the plain reductions are the fast ones.
"""

from collections.abc import Callable
from typing import TypeVar

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation import native
from fedplus.aggregation.shares import CACHED, Share, share_of, whole

FEWEST, MOST = 4, 16
"""Rows of a group, which are read once and used twice."""
FEW = 16
"""Rows up to which XLA's product is as fast as any loop, and not worth sharing among cores."""
LANES = 16
"""Stretches of a row that are summed side by side."""

Sums = TypeVar("Sums")


def each_weight(w_local: Matrix, weights: Vector | None) -> Vector:
    """The parties' weights; None: 1 each."""
    return jnp.ones_like(w_local[:, 0]) if weights is None else weights


def weighted_mean(w_local: Matrix, weights: Vector) -> Vector:
    """Σ_k p_k w_k with p the normalised weights: one product, one pass."""
    return _product(weights / jnp.sum(weights), w_local)


def shared_mean(w_local: Matrix, weights: Vector) -> Vector:
    """The same, where all cores ask for it at the same time: they share the pass."""
    share = share_of(len(weights), w_local)
    if share.axis is None or len(weights) <= FEW:
        return weighted_mean(w_local, weights)
    p = weights / jnp.sum(weights)
    if native.usable(w_local):
        return share.added(native.product(w_local, p, share))

    def add(rows: Matrix, at: Array, mine: Array, total: Vector) -> Vector:
        return total + _product(jnp.where(mine, _part(p, at, mine), 0), rows)

    return share.added(_over_groups(share, w_local, add, jnp.zeros_like(w_local[0])))


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


def reweigh(
    w_local: Matrix, weights: Vector, delta: Array, w: Vector
) -> tuple[Vector, Vector, Vector]:
    """Distances from w, the weights q_k = a_k / max(‖w_k − w‖, δ), and the mean with these.

    Cores that share W have to ask at the same time. Each passes over its rows once: they are added
    while its cache still has them. One alone has threads for each of two passes, and is faster so.
    """
    share = share_of(len(weights), w_local)

    def weight(r: Vector, of: Vector) -> Vector:
        return of / jnp.maximum(r, delta)

    if native.usable(w_local):
        r, total = _added(share, *native.reweigh(w_local, weights, delta, w, share))
        q = weight(r, weights)
        return r, q, total / jnp.sum(weights * (delta / jnp.maximum(r, delta)))
    if share.axis is None:
        r = distances(w_local, w)
        q = weight(r, weights)
        return r, q, weighted_mean(w_local, q)

    def add(
        rows: Matrix, at: Array, mine: Array, sums: tuple[Vector, Vector]
    ) -> tuple[Vector, Vector]:
        found, total = sums
        r = jnp.where(mine, distances(rows, w), _part(found, at, mine))
        q = jnp.where(mine, weight(r, _part(weights, at, mine)), 0)
        found = lax.dynamic_update_slice_in_dim(found, r, at, 0)
        return found, total + _product(q, rows)

    sums = _over_groups(share, w_local, add, (jnp.zeros_like(weights), jnp.zeros_like(w)))
    r, total = _added(share, *sums)
    q = weight(r, weights)
    return r, q, total / jnp.sum(q)


def _added(share: Share, r: Vector, total: Vector) -> tuple[Vector, Vector]:
    """Both added over the cores, at once."""
    if share.axis is None:
        return r, total
    found, added = jnp.split(share.added(jnp.concatenate([r, total])), [len(r)])
    return found, added


def _over_groups(
    share: Share, w_local: Matrix, add: Callable[[Matrix, Array, Array, Sums], Sums], first: Sums
) -> Sums:
    """Add up this core's rows, some at a time: which ones, from where on, and which of them count."""
    n, d = w_local.shape
    size = min(n, max(FEWEST, min(MOST, CACHED // d)))

    def turn(i: Array, sums: Sums) -> Sums:
        begin = share.first + i * size
        end = jnp.minimum(begin + size, share.first + share.size)
        at = jnp.minimum(begin, n - size)  # The last group may overlap the one before.
        row = at + jnp.arange(size)
        rows = lax.dynamic_slice_in_dim(w_local, at, size)
        return add(rows, at, (row >= begin) & (row < end), sums)

    total: Sums = lax.fori_loop(0, -(-share.size // size), turn, first)
    return total


def _part(of: Vector, at: Array, like: Array) -> Vector:
    return lax.dynamic_slice_in_dim(of, at, len(like))


def _product(p: Vector, rows: Matrix) -> Vector:
    if len(p) > FEW and native.usable(rows):
        return native.product(rows, p, whole(len(p)))
    return jnp.matmul(p, rows, precision=lax.Precision.HIGHEST)
