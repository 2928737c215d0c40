"""The minimiser of ψ's Moreau envelope over the parties, by the fastest exact way that is known."""

from collections.abc import Callable
from functools import singledispatch
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from fedplus._types import Array, Matrix, Vector, epsilon
from fedplus.aggregation import native
from fedplus.aggregation.base import Aggregate
from fedplus.aggregation.mean import mean
from fedplus.aggregation.median import NETWORK_UP_TO, median_by_counting, median_by_network
from fedplus.aggregation.recursion import moves
from fedplus.aggregation.reweighted import Median
from fedplus.aggregation.rows import each_weight, weighted_mean
from fedplus.aggregation.search import sample_rows
from fedplus.aggregation.shares import agreed
from fedplus.aggregation.soft_median import soft_median
from fedplus.aggregation.start import start_of
from fedplus.aggregation.weiszfeld import weiszfeld
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero

MOST_TURNS = 20_000


@singledispatch
def minimise(
    psi: AbstractPsi, w_local: Matrix, weights: Vector | None, start: Vector | None
) -> Aggregate:
    """Nesterov's method on the envelope, whose gradient step is the recursion, with restarts."""
    each = each_weight(w_local, weights)
    accuracy = max(1e-11, 8 * epsilon(w_local))

    class State(NamedTuple):
        w: Vector
        ahead: Vector  # the point that momentum leads to
        momentum: Array
        left: Array
        done: Array
        turns: Array

    def turn(s: State) -> State:
        move, pull = moves(psi, w_local, each, s.ahead)
        left = jnp.linalg.norm(move)
        done = left <= accuracy * pull + 2 * epsilon(move) * jnp.linalg.norm(s.ahead)
        w = jnp.where(done, s.ahead, s.ahead + move)
        uphill = jnp.sum(move * (w - s.w)) < 0
        grown = 0.5 * (1 + jnp.sqrt(1 + 4 * s.momentum**2))
        ahead = jnp.where(uphill, w, w + (s.momentum - 1) / grown * (w - s.w))
        momentum = jnp.where(uphill, 1.0, grown).astype(w.dtype)
        return State(w, ahead, momentum, left, done, s.turns + 1)

    begin = weighted_mean(w_local, each) if start is None else start
    one, infinite = jnp.ones((), begin.dtype), jnp.full((), jnp.inf, begin.dtype)
    first = State(begin, begin, one, infinite, jnp.array(False), jnp.zeros((), jnp.int32))
    last = lax.while_loop(lambda s: ~s.done & (s.turns < MOST_TURNS), turn, first)
    return Aggregate(last.w, last.turns, last.left, last.done)


@minimise.register(Zero)
@minimise.register(Anchor)
@minimise.register(Quadratic)
def _(psi: AbstractPsi, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
    return mean(w_local, weights)


@minimise.register
def _(psi: L2, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
    if w_local.shape[1] == 1:
        return minimise(L1(psi.delta), w_local, weights, start)
    each = each_weight(w_local, weights)
    delta = jnp.asarray(psi.delta, w_local.dtype)
    start = start_of(w_local, each, delta, start)
    return of_delta_geometric(weiszfeld(w_local, each, delta, start), delta, jnp.sum(each))


def of_delta_geometric(found: Median, delta: Array, weight: Array | int) -> Aggregate:
    """With the length of the recursion's next move for a residual."""
    return Aggregate(found.w, found.turns, found.pull * (delta / weight), found.converged)


@minimise.register
def _(psi: L1, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
    each = each_weight(w_local, weights)
    delta = jnp.asarray(psi.delta, w_local.dtype)
    near = start is not None
    start, spacing, searched = _begin(w_local, weights, delta, start)
    found = soft_median(w_local, each, delta, start, spacing, near=near)
    return Aggregate(found.w, searched + found.passes, found.left, found.converged)


def _begin(
    w_local: Matrix, weights: Vector | None, delta: Array, start: Vector | None
) -> tuple[Vector, Vector, Array]:
    """Where the search for a δ-coordinatewise median begins, its unit of length, and passes taken."""
    no_passes = jnp.zeros((), jnp.int32)
    if start is None and weights is None and w_local.shape[0] <= NETWORK_UP_TO:
        median = median_by_network(w_local)
        return median, jnp.zeros_like(median), no_passes  # The root is at most δ away.
    middle, spacing = sample_rows(w_local)
    if start is not None or native.usable(w_local):  # Such loops look for the median where need be.
        return middle if start is None else start, spacing, no_passes
    # A window of ±δ with several parties in it is found from anywhere; a narrow one is not.
    begin, searched = lax.cond(
        agreed(delta > 2 * jnp.mean(spacing), w_local),
        lambda: (middle, no_passes),
        lambda: median_by_counting(w_local, each_weight(w_local, weights), None)[:2],
    )
    return begin, spacing, searched


@minimise.register
def _(psi: Blocks, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
    starts = psi.split(start) if start is not None else dict.fromkeys(psi.parts)

    def solve(pattern: str, block: Matrix) -> Aggregate:
        return minimise(psi.parts[pattern], block, weights, starts[pattern])

    return by_blocks(psi, w_local, solve)


def by_blocks(psi: Blocks, w_local: Matrix, solve: Callable[[str, Matrix], Aggregate]) -> Aggregate:
    """Each block of columns by itself, given its pattern, and all of them as one."""
    found, spans = {}, psi.spans
    for pattern, block in psi.split(w_local).items():
        pieces = spans[pattern]
        with native.lying_in(block, w_local, pieces[0][0] if len(pieces) == 1 else None):
            found[pattern] = solve(pattern, block)
    w, iterations, residuals, converged = zip(*found.values(), strict=True)
    return Aggregate(
        psi.join(dict(zip(found, w, strict=True))),
        jnp.max(jnp.stack(iterations)),
        jnp.linalg.norm(jnp.stack(residuals)),
        jnp.all(jnp.stack(converged)),
    )
