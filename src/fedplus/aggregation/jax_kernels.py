"""The passes of ``kernels`` in JAX, for GPUs and for CPUs without compiled kernels.

On a CPU, sums over parties run row by row, because XLA's reductions over the leading axis stride
through memory. On a GPU, XLA's reductions are faster.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon


def weighted_sum(w_local: Matrix, p: Vector) -> Vector:
    """Return Σ_k p_k w_k."""
    return jnp.matmul(p, w_local, precision=lax.Precision.HIGHEST)


def distances_and_descent(
    w_local: Matrix, weights: Vector, delta: Array, at: Vector
) -> tuple[Vector, Vector]:
    """Return the distances r_k = ‖w_k − at‖ and −∇f(at) = Σ_k a_k (w_k − at) / max(r_k, δ)."""
    r = _row_norms(w_local - at)
    reach, least = jnp.maximum(r, delta), 1e3 / np.finfo(w_local.dtype).max
    q = jnp.where(reach > 0, weights / jnp.maximum(reach, least), 0)
    return r, _sum_over_parties(w_local, q, lambda w_k, q_k: (q_k * (w_k - at),))[0]


def _row_norms(rows: Matrix) -> Vector:
    """Return ‖·‖₂ of each row, without overflow or underflow of the squares."""
    largest = jnp.max(jnp.abs(rows), axis=1)
    scaled = rows / jnp.where(largest > 0, largest, 1)[:, None]
    return largest * jnp.sqrt(jnp.sum(scaled * scaled, axis=1))


def medians(w_local: Matrix, weights: Vector | None, start: Any) -> Vector:
    """Return the midpoint of all minimisers of Σ_k a_k |w_k − w| in each column."""
    weights = jnp.ones_like(w_local[:, 0]) if weights is None else weights
    mass = jnp.broadcast_to(weights[:, None], w_local.shape)
    values, mass = lax.sort((w_local, mass), dimension=0, num_keys=1)
    up_to, half = jnp.cumsum(mass, axis=0), 0.5 * jnp.sum(weights)
    tie = 8 * epsilon(w_local) * half

    def first(reached: Array) -> Vector:
        return jnp.take_along_axis(values, jnp.argmax(reached, axis=0)[None], axis=0)[0]

    low, high = first(up_to >= half - tie), first(up_to > half + tie)
    return _propagate_nan(0.5 * low + 0.5 * high, w_local)


def delta_medians(
    w_local: Matrix, weights: Vector | None, delta: Array, start: Any
) -> tuple[Vector, Array]:
    """Return the root of Σ_k a_k clip(w_k − w, −δ, δ) in each column, and 0 unsolved columns.

    If the roots form an interval, it is the one nearest to the mean, where the paper's recursion stops.
    """
    weights = jnp.ones_like(w_local[:, 0]) if weights is None else weights
    delta = jnp.maximum(delta, np.finfo(w_local.dtype).tiny)

    def clipped_sum(w: Vector, sign: Vector) -> Vector:
        """Return the sum at w, for models multiplied by ``sign``."""

        def term(w_k: Array, a_k: Array) -> tuple[Array, ...]:
            away = sign * w_k - w
            within = jnp.abs(away) < delta
            outside = jnp.where(within, 0, a_k * jnp.sign(away))
            return jnp.where(within, a_k * away, 0), jnp.where(within, a_k, 0), outside

        inside, weight, outside = _sum_over_parties(w_local, weights, term)
        is_tied = jnp.maximum(jnp.abs(outside), weight) <= tie
        return jnp.where(is_tied, 0, inside + delta * outside)

    # Sums of weights up to this size are rounding errors; the clipped sum then counts as 0.
    tie = 4 * epsilon(w_local) * jnp.sum(weights)
    mean = weighted_sum(w_local, weights / jnp.sum(weights))
    at_mean = clipped_sum(mean, jnp.ones_like(mean))
    sign = jnp.where(at_mean < 0, -1, 1).astype(mean.dtype)  # −1 where the root is below the mean
    nearest = sign * _bisect(lambda w: clipped_sum(w, sign) <= 0, w_local)
    root = jnp.where(at_mean == 0, mean, nearest)
    return _propagate_nan(root, w_local), jnp.zeros(1, jnp.int32)


def _sum_over_parties(w_local: Matrix, weights: Vector, term: Callable[..., Any]) -> Any:
    """Return the sums over k of the vectors in the tuple term(w_k, a_k)."""

    def by_rows(w_local: Matrix, weights: Vector) -> Any:
        def add(k: Array, sums: tuple[Vector, ...]) -> tuple[Vector, ...]:
            return tuple(map(jnp.add, sums, term(w_local[k], weights[k])))

        return lax.fori_loop(1, len(w_local), add, term(w_local[0], weights[0]))

    def at_once(w_local: Matrix, weights: Vector) -> Any:
        return tuple(terms.sum(axis=0) for terms in term(w_local, weights[:, None]))

    if len(w_local) > w_local.shape[1]:
        return at_once(w_local, weights)
    return lax.platform_dependent(w_local, weights, cpu=by_rows, default=at_once)


def _bisect(is_reached: Callable[[Vector], Array], w_local: Matrix) -> Vector:
    """Return, for each column, the smallest number of W's dtype for which ``is_reached`` is true.

    ``is_reached`` is false below some number and true from there on. The bisection runs over the bit
    patterns in order, so it takes as many steps as a number has bits.
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
        reached = is_reached(number(middle))
        return jnp.where(reached, low, middle + 1), jnp.where(reached, middle, high)

    least, most = (jnp.full_like(w_local[0], x) for x in (info.min, info.max))
    low, _ = lax.fori_loop(0, info.bits, halve, (key(least), key(most)))
    return number(low)


def _propagate_nan(w: Vector, w_local: Matrix) -> Vector:
    """Return w with NaN in the columns in which W has a non-finite entry, as the kernels do."""
    zero_or_nan = weighted_sum(w_local, jnp.zeros_like(w_local[:, 0]))
    return w + zero_or_nan
