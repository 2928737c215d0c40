"""The passes of ``kernels`` in JAX: what runs on a GPU, and on a CPU without compiled kernels.

On a CPU, XLA's reductions over the leading axis stride through memory, so that sums over parties
run row by row there. On a GPU the plain reductions are the fast ones.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon


def weighted_sum(w_local: Matrix, p: Vector) -> Vector:
    """Σ_k p_k w_k."""
    return jnp.matmul(p, w_local, precision=lax.Precision.HIGHEST)


def pulls(w_local: Matrix, weights: Vector, delta: Array, at: Vector) -> tuple[Vector, Vector]:
    """Return distances r_k = ‖w_k − at‖ and Σ_k a_k (w_k − at) / max(r_k, δ)."""
    r = _length(w_local - at)
    reach, least = jnp.maximum(r, delta), 1e3 / np.finfo(w_local.dtype).max
    q = jnp.where(reach > 0, weights / jnp.maximum(reach, least), 0)
    return r, _over_rows(w_local, q, lambda w_k, q_k: (q_k * (w_k - at),))[0]


def _length(away: Matrix) -> Vector:
    """‖·‖₂ of each row, without overflow or underflow of the squares."""
    largest = jnp.max(jnp.abs(away), axis=1)
    share = away / jnp.where(largest > 0, largest, 1)[:, None]
    return largest * jnp.sqrt(jnp.sum(share * share, axis=1))


def medians(w_local: Matrix, weights: Vector | None, start: Any) -> Vector:
    """Return the middle of all minimisers of Σ_k a_k |w_k − w| in each column."""
    weights = jnp.ones_like(w_local[:, 0]) if weights is None else weights
    mass = jnp.broadcast_to(weights[:, None], w_local.shape)
    values, mass = lax.sort((w_local, mass), dimension=0, num_keys=1)
    up_to, half = jnp.cumsum(mass, axis=0), 0.5 * jnp.sum(weights)
    tie = 8 * epsilon(w_local) * half

    def first(reached: Array) -> Vector:
        return jnp.take_along_axis(values, jnp.argmax(reached, axis=0)[None], axis=0)[0]

    low, high = first(up_to >= half - tie), first(up_to > half + tie)
    return _with_non_finite(0.5 * low + 0.5 * high, w_local)


def delta_medians(
    w_local: Matrix, weights: Vector | None, delta: Array, start: Any
) -> tuple[Vector, Array]:
    """Return the root of Σ_k a_k clip(w_k − w, −δ, δ) in each column; 0 of them are missing.

    Where the roots form an interval, it is the point nearest to the mean, where the paper's recursion
    stops: the first root that one meets on the way from the mean.
    """
    weights = jnp.ones_like(w_local[:, 0]) if weights is None else weights
    delta = jnp.maximum(delta, np.finfo(w_local.dtype).tiny)

    def pull(w: Vector, side: Vector) -> Vector:
        def term(w_k: Array, a_k: Array) -> tuple[Array, ...]:
            away = side * w_k - w
            within = jnp.abs(away) < delta
            outside = jnp.where(within, 0, a_k * jnp.sign(away))
            return jnp.where(within, a_k * away, 0), jnp.where(within, a_k, 0), outside

        inside, weight, outside = _over_rows(w_local, weights, term)
        tied = jnp.maximum(jnp.abs(outside), weight) <= tie
        return jnp.where(tied, 0, inside + delta * outside)

    # Weights on both sides may differ by rounding; what is within δ, if anything, decides then.
    tie = 4 * epsilon(w_local) * jnp.sum(weights)
    mean = weighted_sum(w_local, weights / jnp.sum(weights))
    at_mean = pull(mean, jnp.ones_like(mean))
    side = jnp.where(at_mean < 0, -1, 1).astype(mean.dtype)
    first = side * _bisect(lambda w: pull(w, side) <= 0, w_local)
    found = jnp.where(at_mean == 0, mean, first)
    return _with_non_finite(found, w_local), jnp.zeros(1, jnp.int32)


def _over_rows(w_local: Matrix, weights: Vector, term: Callable[..., Any]) -> Any:
    """Add up the sums to which each party contributes term(w_k, a_k)."""

    def by_rows(w_local: Matrix, weights: Vector) -> Any:
        def add(k: Array, sums: tuple[Vector, ...]) -> tuple[Vector, ...]:
            return tuple(map(jnp.add, sums, term(w_local[k], weights[k])))

        return lax.fori_loop(1, len(w_local), add, term(w_local[0], weights[0]))

    def at_once(w_local: Matrix, weights: Vector) -> Any:
        return tuple(found.sum(axis=0) for found in term(w_local, weights[:, None]))

    if len(w_local) > w_local.shape[1]:
        return at_once(w_local, weights)
    return lax.platform_dependent(w_local, weights, cpu=by_rows, default=at_once)


def _bisect(reached: Callable[[Vector], Array], w_local: Matrix) -> Vector:
    """Return, in each column, the smallest number of W's type for which ``reached`` is true.

    ``reached`` is false up to some point and true from there on. Halving in the order of the bits takes
    as many steps as a number has bits.
    """
    integer = jnp.int32 if w_local.dtype == jnp.float32 else jnp.int64
    info = np.finfo(w_local.dtype)

    def key(x: Array) -> Array:
        bits = lax.bitcast_convert_type(x, integer)
        return jnp.where(bits < 0, np.iinfo(integer).min - bits, bits)

    def number(key: Array) -> Array:
        bits = jnp.where(key < 0, np.iinfo(integer).min - key, key)
        return lax.bitcast_convert_type(bits, w_local.dtype)

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low & high) + ((low ^ high) >> 1)
        yes = reached(number(middle))
        return jnp.where(yes, low, middle + 1), jnp.where(yes, middle, high)

    least, most = (jnp.full_like(w_local[0], x) for x in (info.min, info.max))
    low, _ = lax.fori_loop(0, info.bits, halve, (key(least), key(most)))
    return number(low)


def _with_non_finite(found: Vector, w_local: Matrix) -> Vector:
    """Make a column of W that has a non-finite entry show in the result, as the kernels do."""
    seen = weighted_sum(w_local, jnp.zeros_like(w_local[:, 0]))
    return found + seen
