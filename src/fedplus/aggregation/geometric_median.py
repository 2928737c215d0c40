"""The geometric median and the δ-geometric median: reweighted means with a secant step.

The minimiser of f(w) = Σ_k a_k h(‖w_k − w‖), with h(r) = r − δ/2 beyond δ and r²/2δ within, is
where the pulls a_k (w_k − w) / max(‖w_k − w‖, δ) of all parties cancel. Weiszfeld's iteration moves
w by the sum of the pulls divided by the sum of their weights a_k / max(‖w_k − w‖, δ). One
direction, that of the outliers, usually converges more slowly than all others; a secant step
(Anderson acceleration with a memory of one) takes care of it. Each iteration is one pass over W.
"""

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, epsilon, namespace, settings
from fedplus.aggregation import kernels
from fedplus.aggregation.base import (
    AbstractAggregator,
    Aggregate,
    Changed,
    cond,
    fori_loop,
    while_loop,
)
from fedplus.aggregation.coordinate_median import CoordinateMedian, DeltaCoordinateMedian
from fedplus.aggregation.cores import agreed

MOST_ITERATIONS = 300
LINE_SEARCH_AFTER = 12
"""Iterations after which each step is a search along a line."""
STEP = {4: 1e-6, 8: 1e-11}
"""The longest step, in median distances of the models, at which the iteration may stop, by bytes of a number."""
ACCURACY = 1e-5
"""How near the minimiser w must be, or f(w)/Σ a_k to its minimum, relative to the same distance."""
SAMPLE_ROWS, SAMPLE_COLUMNS, STRETCHES = 15, 32, 8
"""How much of W is looked at to find a start: rows, columns, and stretches of twice as many columns."""


@final
@settings
class GeometricMedian(AbstractAggregator):
    r"""The geometric median, as robust federated aggregation uses it (RFA, Pillutla et al., 2019).

    .. math:: \operatorname{argmin}_w \tfrac1N \sum_k \|w_k - w\|_2

    With fewer than half of the weight arbitrarily far away the result stays bounded. Where all models
    lie on one line and an interval of it minimises, it is the midpoint of the interval.

    Paper: Section "Robust Aggregation"; Table 1.
    """

    shows_non_finite = True

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        return DeltaGeometricMedian(0.0).solve(w_local, weights, start)

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        return DeltaGeometricMedian(0.0).init(w, parties, changed)

    @override
    def follow(
        self, w_local: Matrix, start: Vector, memory: Any, changed: Changed
    ) -> tuple[Aggregate, Any]:
        return DeltaGeometricMedian(0.0).follow(w_local, start, memory, changed)


@final
@settings
class DeltaGeometricMedian(AbstractAggregator):
    """The minimiser of the Moreau envelope of ψ = L2(δ); δ = 0: the geometric median.

    Where all models lie on one line, an interval may minimise; then the result is the point that the
    one-dimensional medians return.
    """

    delta: float
    shows_non_finite = True

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        if w_local.shape[1] == 1:
            return _in_one_dimension(w_local, weights, self.delta)
        each = kernels.each_weight(w_local, weights)
        each = each / each.max()

        def search() -> Aggregate:
            w = kernels.gram_start(w_local, each, self.delta)
            good = w is not None or start is not None
            if w is None:
                w = _begin(w_local, each, self.delta) if start is None else start
            here = _evaluate(w_local, each, self.delta, w)
            return _search(w_local, each, self.delta, here, certifiable=good)[0]

        def search_line() -> Aggregate:
            origin, direction, along, collinear = _line(w_local)

            def on_it() -> Aggregate:
                return _on_a_line(origin, direction, along, weights, self.delta)

            return cond(w_local, collinear, on_it, search)  # type: ignore[no-any-return]

        found: Aggregate = cond(w_local, _may_be_collinear(w_local), search_line, search)
        return found

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        """Return the last median, its distances from all models, and the sum of the pulls there.

        Infinite distances mean that nothing is known.
        """
        if w.size == 1 or 4 * changed > parties:
            return ()
        return jnp.zeros_like(w), jnp.full(parties, jnp.inf, w.dtype), jnp.zeros_like(w)

    @override
    def follow(
        self, w_local: Matrix, start: Vector, memory: Any, changed: Changed
    ) -> tuple[Aggregate, Any]:
        """Begin at the last median, where the pulls of changed models tell the sum of all pulls."""
        each, delta = kernels.each_weight(w_local, None), self.delta
        w, r, pull = memory
        known = jnp.isfinite(jnp.sum(r))
        w, r, pull = (jnp.where(known, x, y) for x, y in ((w, start), (r, 0), (pull, 0)))
        ones = jnp.ones_like(changed.before[:, 0])
        _, before = kernels.pulls(changed.before, ones, delta, w)
        now, after = kernels.pulls(w_local[changed.rows], ones, delta, w)
        pull = jnp.where(known, pull + (after - before), 0)
        first = _evaluation(w_local, each, delta, w, r.at[changed.rows].set(now), pull)
        found, last = _search(w_local, each, delta, first, certifiable=False)
        return found, (last.w, last.r, last.pull)


class Evaluation(NamedTuple):
    """What one pass over W finds at w."""

    w: Vector
    r: Vector
    """(N,): ‖w_k − w‖."""
    pull: Vector
    """(d,): Σ_k a_k (w_k − w) / max(r_k, δ), the negative gradient of f."""
    slope: Array
    """Σ_k a_k / max(r_k, δ)."""
    nearest: Array
    """Which model is nearest to w."""
    dominated: Array
    """Whether that model makes up half of the slope, so that reweighted means creep."""
    proposal: Vector
    """(d,): where to go from w: to the reweighted mean w + pull / slope, or as ``_beside`` says."""


def _evaluate(w_local: Matrix, weights: Vector, delta: Any, w: Vector) -> Evaluation:
    r, pull = kernels.pulls(w_local, weights, delta, w)
    return _evaluation(w_local, weights, delta, w, r, pull)


def _evaluation(
    w_local: Matrix, weights: Vector, delta: Any, w: Vector, r: Vector, pull: Vector
) -> Evaluation:
    xp = namespace(r)
    q = _reweighted(r, weights, delta)
    slope = xp.sum(q)
    slope = xp.where(slope > 0, slope, 1)
    nearest = xp.argmin(r)
    as_near = r <= r[nearest] * (1 + 1e-5)  # These count as one.
    others = xp.sum(xp.where(as_near, 0, q))
    reach = xp.maximum(r[nearest], delta)
    dominated = (2 * others <= slope) | (reach == 0)
    held = xp.vdot(weights, as_near.astype(weights.dtype))
    proposal = cond(
        w_local, dominated & (r[nearest] >= delta),
        lambda: _beside(w, pull, w_local[nearest], others, held), lambda: w + pull / slope,
    )  # fmt: skip
    return Evaluation(w, r, pull, slope, nearest, dominated, proposal)


def _beside(w: Vector, pull: Vector, place: Vector, others: Any, held: Any) -> Any:
    """Return the minimiser of one model's own term and of the quadratic that bounds the others'.

    It is closer to the minimum than w; it may be the model itself (Vardi and Zhang, 2000).

    Args:
        w: Where the pulls are known.
        pull: Their sum.
        place: The model.
        others: The slope of the others.
        held: The model's weight.
    """
    xp = namespace(w)
    away = w - place
    r = _norm(away)
    pull = pull + xp.where(r > 0, held / xp.where(r > 0, r, 1), 0) * away
    others = xp.where(others > 0, others, 1)
    towards = away + pull / others
    strength = others * _norm(towards)
    return place + xp.maximum(1 - held / xp.where(strength > 0, strength, 1), 0) * towards


def _reweighted(r: Vector, weights: Vector, delta: Any) -> Any:
    """Return a_k / max(r_k, δ), in range; 0 for models at w if δ is 0."""
    xp = namespace(r)
    reach = xp.maximum(r, delta)
    most = 1e-6 * np.finfo(r.dtype).max
    return xp.where(reach > 0, weights / xp.maximum(reach, 1 / most), 0)


class _State(NamedTuple):
    here: Evaluation
    before: Evaluation
    """The point before, for the secant."""
    secant: Array
    """Whether ``before`` is of use."""
    left: Array
    """‖·‖₂ of the step of a reweighted mean."""
    iterations: Array
    converged: Array


def _search(
    w_local: Matrix, weights: Vector, delta: Any, first: Evaluation, certifiable: bool = True
) -> tuple[Aggregate, Evaluation]:
    """Iterate from what is known at one point until w is certified.

    ``certifiable``: False if ``first`` is not good enough to be accepted, or not the result of a pass
    over all of W.
    """
    xp = namespace(w_local)
    no, one = xp.asarray(False), xp.asarray(1, xp.int32)
    left, converged = xp.asarray(xp.inf, w_local.dtype), no
    if certifiable:
        left, converged, _ = _certify(w_local, first, weights, delta)
    begin = _State(first, first, no, left, one, agreed(converged, w_local))

    def go_on(s: _State) -> Any:
        return ~s.converged & (s.iterations < MOST_ITERATIONS)

    def turn(s: _State) -> _State:
        here, before = s.here, s.before

        def by_secant() -> Any:
            step = here.slope * (here.proposal - here.w)
            turned = step - here.slope * (before.proposal - before.w)
            square = xp.vdot(turned, turned)
            share = xp.vdot(turned, step) / xp.where(square > 0, square, 1)
            return here.proposal - share * (here.proposal - before.proposal)

        def ahead() -> Any:
            return cond(w_local, s.secant, by_secant, lambda: here.proposal)

        slow = s.iterations > LINE_SEARCH_AFTER
        w = cond(w_local, slow, lambda: _line_search(w_local, weights, delta, here, before), ahead)
        now = _evaluate(w_local, weights, delta, w)
        left, converged, finite = _certify(w_local, now, weights, delta)
        # A secant step that leads astray is taken back.
        astray = ~converged & s.secant & ~(finite & (left <= 2 * s.left))
        converged, astray = agreed(xp.stack([converged, astray]), w_local)
        kept = cond(w_local, astray, lambda: here, lambda: now)
        left = xp.where(astray, s.left, left)
        secant = ~astray & (now.dominated == here.dominated) & (s.iterations < LINE_SEARCH_AFTER)
        return _State(kept, here, secant, left, s.iterations + 1, converged)

    last = while_loop(w_local, go_on, turn, begin)
    # The residual of the paper's recursion, which moves w by δ times the mean pull.
    left = xp.where(delta > 0, delta * _norm(last.here.pull) / xp.sum(weights), last.left)
    found = Aggregate(last.here.w, last.iterations, left.astype(w_local.dtype), last.converged)
    return found, last.here


def _line_search(
    w_local: Matrix, weights: Vector, delta: Any, here: Evaluation, before: Evaluation
) -> Any:
    """Return the minimiser of f on a line through w, in a direction conjugate to that of the last step.

    Once the distances along the line are known, no further pass over W is needed. It is for models that
    lie nearly on one line or in pairs, where other steps creep.
    """
    xp = namespace(w_local)
    step, last = here.slope * (here.proposal - here.w), here.slope * (here.w - before.w)
    turned = step - here.slope * (before.proposal - before.w)
    change = xp.vdot(last, turned)
    step = step - xp.where(change != 0, xp.vdot(step, turned) / change, 0) * last
    length = _norm(step)
    step = step / xp.where(length > 0, length, 1)
    along = w_local @ step - xp.vdot(here.w, step)
    off = xp.sqrt(xp.maximum(here.r - along, 0)) * xp.sqrt(xp.maximum(here.r + along, 0))

    def halve(_: Any, ends: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = ends
        t = 0.5 * low + 0.5 * high
        away = along - t
        reach = xp.maximum(xp.hypot(off, away), delta)
        pull = xp.vdot(weights, away / xp.where(reach > 0, reach, 1))
        return xp.where(pull > 0, t, low), xp.where(pull > 0, high, t)

    low, high = fori_loop(w_local, 100, halve, (xp.min(along), xp.max(along)))
    return here.w + (0.5 * low + 0.5 * high) * step


def _certify(
    w_local: Matrix, here: Evaluation, weights: Vector, delta: Any
) -> tuple[Any, Any, Any]:
    """Return the length of the step, whether w is proven to be near enough, and if all is finite.

    Let g be the gradient of f at w, A = Σ a_k and s the median distance of the models from w. One of
    these must hold:

    - Models within δ hold w like springs: f is m-strongly convex within 0.05 δ of w, m = Σ a_k/δ over
      r_k ≤ 0.95 δ, and ‖g‖/m bounds the distance to the minimiser, provided that it is at most 0.05 δ.
    - More than half of the weight, a share α, is within ρ = 3s of w. Then the minimiser is within
      L = α (2ρ + δ/2) / (2α − 1), since f is no larger there and h is 1-Lipschitz, and ‖g‖ L bounds how
      much larger f is at w.
    - w is at or beside a model, which bounds the minimum from below (see ``_beside_bound``).

    Models at w itself resist any pull up to their weight, unless δ is large enough to be seen.
    """
    xp = namespace(here.w)
    r, eps = here.r, epsilon(here.w)

    def weight(which: Any) -> Any:
        return xp.vdot(weights, which.astype(weights.dtype))

    total = xp.sum(weights)
    # Rounding moves w only in the columns in which models differ.
    rounding = 2 * eps * _norm(xp.where(here.pull != 0, here.w, 0))
    spread = _typical(r, weights)
    size = _norm(here.pull)
    q = _reweighted(r, weights, delta)
    # The slope without models so near that rounding decides in which direction they pull.
    firm = xp.sum(xp.where(r >= 0.01 * spread, q, 0))
    resisted = weight((r == 0) & (delta <= rounding))
    # Rounding of w moves the gradient as a step of that length does, and each pull is rounded, too.
    gradient = xp.maximum(size - rounding * firm - 4 * eps * xp.vdot(q, r) - resisted, 0)
    springs = xp.where(delta > 0, weight(r <= 0.95 * delta) / xp.where(delta > 0, delta, 1), 0)
    distance = xp.maximum(gradient / xp.where(springs > 0, springs, 1) - rounding, 0)
    near = (springs > 0) & (
        distance <= xp.minimum(0.05 * delta, STEP[here.w.dtype.itemsize] * spread)
    )
    share = weight(r <= 3 * spread) / total
    within = share * (6 * spread + 0.5 * delta) / xp.where(share > 0.5, 2 * share - 1, 1)
    low = (share > 0.5) & (delta <= spread) & (gradient / total * within <= ACCURACY * spread)
    low = low & (gradient <= STEP[here.w.dtype.itemsize] * spread * firm)
    finite = xp.isfinite(xp.sum(r)) & xp.isfinite(size)
    sure = near | low | (gradient == 0)

    def beside() -> tuple[Any, Any]:
        moves = _norm(here.proposal - here.w)
        bound = _beside_bound(w_local, here, weights, delta, size)
        return moves, (bound <= ACCURACY * spread * total) & (
            moves <= STEP[here.w.dtype.itemsize] * spread + rounding
        )

    plain = size / here.slope
    left, beside_it = cond(w_local, here.dominated, beside, lambda: (plain, xp.asarray(False)))
    return left, (sure | beside_it) & finite, finite


def _beside_bound(w_local: Matrix, here: Evaluation, weights: Vector, delta: Any, size: Any) -> Any:
    """Bound how much larger f is at w than at its minimum, by duality, with w beside a model.

    For any y_k with ‖y_k‖ ≤ a_k and Σ y_k = 0, f is at least Σ_k y_k·(w_k − w) − δ‖y_k‖²/2a_k. The y_k
    of all other models are their pulls, and that of the nearest model balances them. All are scaled if
    that one is too long.
    """
    xp = namespace(here.w)
    r = here.r[here.nearest]
    reach = xp.maximum(r, delta)
    there = xp.vdot(weights, (here.r == 0).astype(weights.dtype))
    own = xp.where(r == 0, there, weights[here.nearest])
    part = xp.where(reach > 0, own / xp.where(reach > 0, reach, 1), 0)
    along = xp.vdot(here.pull, w_local[here.nearest] - here.w)
    square = size * size - 2 * part * along + (part * r) ** 2
    length = xp.sqrt(xp.maximum(square, 0)) / own
    excess = xp.maximum(length, 1)
    value = xp.where(r >= delta, r - 0.5 * delta, 0.5 * r * r / xp.where(delta > 0, delta, 1))
    balanced = (along - part * r * r) / excess
    return (
        own * (value + 0.5 * delta * xp.minimum(length, 1) ** 2)
        + balanced + (1 - 1 / excess) * xp.vdot(weights, here.r)
    )  # fmt: skip


def _norm(x: Vector) -> Any:
    """Return ‖x‖₂ without overflow or underflow."""
    xp = namespace(x)
    if xp is np and 1e-20 < (square := np.vdot(x, x)) < 1e30:
        return np.sqrt(square)
    largest = xp.max(xp.abs(x))
    scaled = x / xp.where(largest > 0, largest, 1)
    return largest * xp.sqrt(xp.sum(scaled * scaled))


def _typical(r: Vector, weights: Vector) -> Any:
    """Return the weighted median distance."""
    return kernels.medians(r[:, None], weights)[0]


def _begin(w_local: Matrix, weights: Vector, delta: Any) -> Vector:
    """Return a point near the median: a mean that is reweighted by distances in some of the columns."""
    xp = namespace(w_local)
    n, d = w_local.shape
    width = 2 * SAMPLE_COLUMNS
    some = w_local
    if d > STRETCHES * width:
        starts = _some(d - width, STRETCHES)
        some = xp.concatenate([w_local[:, c : c + width] for c in starts], axis=1)
    delta = delta * (some.shape[1] / d) ** 0.5
    w = kernels.medians(some[_some(n, SAMPLE_ROWS)], None)
    for _ in range(3):
        w = _evaluate(some, weights, delta, w).proposal
    r, _ = kernels.pulls(some, weights, delta, w)
    q = _reweighted(r, weights, delta)
    return kernels.weighted_sum(w_local, q / xp.sum(q))  # type: ignore[no-any-return]


def _some(total: int, count: int) -> Any:
    """Return at most ``count`` of ``total`` rows or columns, spread evenly."""
    count = min(total, count)
    return np.array([(2 * i + 1) * total // (2 * count) for i in range(count)])


# ---- Models on one line, where the minimisers may form an interval


def _in_one_dimension(w_local: Matrix, weights: Vector | None, delta: Any) -> Aggregate:
    known_zero = isinstance(delta, float) and delta == 0
    median = CoordinateMedian() if known_zero else DeltaCoordinateMedian(delta)
    return median.solve(w_local, weights, None)


def _may_be_collinear(w_local: Matrix) -> Any:
    """Return False if three models in a row, in some columns, are surely not on one line."""
    xp = namespace(w_local)
    n, d = w_local.shape
    some = w_local[_some(n, SAMPLE_ROWS), :: max(d // SAMPLE_COLUMNS, 1)]
    steps = some[1:] - some[:-1]
    squares = xp.sum(steps * steps, axis=1)
    products = xp.sum(steps[1:] * steps[:-1], axis=1)
    both = squares[1:] * squares[:-1]
    return ~xp.any(both - products * products > 1e-3 * both)  # True if squares overflow.


def _line(w_local: Matrix) -> tuple[Any, Any, Any, Any]:
    """Fit a line through a model amid the others and the one farthest from it.

    Returns:
        A point of the line, its direction, where on it each model is nearest, and whether all models
        lie on it up to their rounding.
    """
    xp = namespace(w_local)
    sample = w_local[:, _some(w_local.shape[1], SAMPLE_COLUMNS)]
    middle = kernels.medians(xp.ascontiguousarray(sample) if xp is np else sample, None)
    origin = w_local[xp.argmin(xp.max(xp.abs(sample - middle), axis=1))]
    size_of = xp.max(xp.abs(origin))

    def reach(models: Any) -> Any:
        return xp.max(xp.abs(models - origin), axis=-1)

    def place(models: Any) -> tuple[Any, Any]:
        away = (models - origin) / unit
        along = xp.sum(away * scaled, axis=-1) / xp.where(square > 0, square, 1)
        off = xp.max(xp.abs(away - along[..., None] * scaled), axis=-1) * unit
        return along, off <= 16 * epsilon(away) * (xp.max(xp.abs(models), axis=-1) + size_of)

    def each(function: Any) -> Any:  # Model by model, where all at once would be another W.
        at_once = xp is np or w_local.shape[1] <= SAMPLE_COLUMNS
        return function(w_local) if at_once else jax.lax.map(function, w_local)

    direction = w_local[xp.argmax(each(reach))] - origin
    largest = xp.max(xp.abs(direction))
    unit = xp.where(largest > 0, largest, 1)
    scaled = direction / unit
    square = xp.sum(scaled * scaled)
    along, on_it = each(place)
    return origin, direction, along, xp.all(on_it)


def _on_a_line(
    origin: Vector, direction: Vector, along: Vector, weights: Vector | None, delta: Any
) -> Aggregate:
    xp = namespace(origin)
    length = _norm(direction)
    column = (along * length)[:, None]
    found = _in_one_dimension(xp.ascontiguousarray(column) if xp is np else column, weights, delta)
    w = origin + (found.w[0] / xp.where(length > 0, length, 1)) * direction
    one = xp.asarray(1, xp.int32)
    residual = xp.asarray(found.residual, w.dtype)
    return Aggregate(w, one, residual, xp.asarray(found.converged))
