"""The paper's 𝒜 for any ψ, by the fastest exact way that is known for it."""

from functools import singledispatch
from typing import NamedTuple, final

import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._check import require
from fedplus._types import Array, Host, Matrix, Vector, epsilon, settings
from fedplus.aggregation import at_hand, native
from fedplus.aggregation.base import AbstractAggregator, Aggregate
from fedplus.aggregation.mean import mean
from fedplus.aggregation.median import NETWORK_UP_TO, median_by_counting, median_by_network
from fedplus.aggregation.recursion import moves
from fedplus.aggregation.rows import each_weight, weighted_mean
from fedplus.aggregation.search import sample_rows
from fedplus.aggregation.shares import agreed
from fedplus.aggregation.soft_median import soft_median
from fedplus.aggregation.start import good_start
from fedplus.aggregation.weiszfeld import weiszfeld
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero

MOST_TURNS = 20_000


@final
@settings
class Moreau(AbstractAggregator):
    r"""The aggregation that ψ defines through its Moreau envelope.

    .. math:: \mathcal A(W) = \operatorname{argmin}_w \tfrac1N \sum_k \hat\psi(w_k - w)

    Zero, Anchor and Quadratic: the mean. L2: the δ-geometric median, by accelerated reweighted means.
    L1: the δ-coordinatewise median, an exact root a coordinate. Blocks: each block by its own ψ. Any
    other ψ: the paper's recursion, accelerated. Where several w minimise, it is the one at which the
    recursion comes to rest. ``residual`` is the length of the recursion's next move in every case.

    Paper: eq. (aggregation_def); Alg. 1, l. 10.

    >>> Moreau(L1(0.5))([[0.0], [1.0], [50.0]]).w.tolist()
    [1.0]
    """

    psi: AbstractPsi

    def __post_init__(self) -> None:
        require(
            isinstance(self.psi, AbstractPsi), "Moreau.psi", repr(self.psi), "a ψ", "E.g. L2(0.1)."
        )

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        return _minimise(self.psi, w_local, weights, start)

    @override
    def at_hand(self, w_local: Host, weights: Host | None, start: Host | None) -> Aggregate | None:
        return at_hand.minimise(self.psi, native.all_of(w_local), weights, start)


@singledispatch
def _minimise(
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


@_minimise.register(Zero)
@_minimise.register(Anchor)
@_minimise.register(Quadratic)
def _(psi: AbstractPsi, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
    return mean(w_local, weights)


@_minimise.register
def _(psi: L2, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
    if w_local.shape[1] == 1:
        return _minimise(L1(psi.delta), w_local, weights, start)
    each = each_weight(w_local, weights)
    delta = jnp.asarray(psi.delta, w_local.dtype)
    start = good_start(w_local, each) if start is None else start
    found = weiszfeld(w_local, each, delta, start)
    residual = found.pull * (delta / jnp.sum(each))
    return Aggregate(found.w, found.turns, residual, found.converged)


@_minimise.register
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


@_minimise.register
def _(psi: Blocks, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
    starts = psi.split(start) if start is not None else dict.fromkeys(psi.parts)
    found, spans = {}, psi.spans()
    for pattern, block in psi.split(w_local).items():
        pieces = spans[pattern]
        with native.lying_in(block, w_local, pieces[0][0] if len(pieces) == 1 else None):
            found[pattern] = _minimise(psi.parts[pattern], block, weights, starts[pattern])
    w, iterations, residuals, converged = zip(*found.values(), strict=True)
    return Aggregate(
        psi.join(dict(zip(found, w, strict=True))),
        jnp.max(jnp.stack(iterations)),
        jnp.linalg.norm(jnp.stack(residuals)),
        jnp.all(jnp.stack(converged)),
    )
