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

from fedplus._backend import cond, namespace, row, while_loop
from fedplus._spmd import first_core_flags
from fedplus._types import Array, Matrix, Vector, epsilon, settings, static_field
from fedplus.aggregation import jax_kernels, kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, ChangedRows
from fedplus.aggregation.coordinate_median import CoordinateMedian
from fedplus.check import require_number

MOST_ITERATIONS = 300
LINE_SEARCH_AFTER = 12
"""Iterations after which each step is a search along a line."""
STEP = {4: 1e-6, 8: 1e-11}
"""The longest step at which the iteration may stop, relative to the median distance of the models from
w; by the number of bytes of an entry."""
ACCURACY = 1e-5
"""How near the minimiser w must be, or f(w)/Σ a_k to its minimum, relative to the same distance."""
FEW = 16
"""Models up to which their inner products tell where to begin."""
SAMPLE_ROWS, SAMPLE_COLUMNS = 15, 64
"""How much of W is looked at to find a start, and to see whether models may lie on one line."""


@final
@settings
class GeometricMedian(AbstractAggregator):
    r"""The geometric median (RFA, Pillutla et al., 2019) and, for δ > 0, the δ-geometric median.

    .. math:: \operatorname{argmin}_w \tfrac1N \sum_k \|w_k - w\|_2

    For δ > 0 it minimises the Moreau envelope of ψ = L2(δ) instead (FedGeoMed+). With fewer than half
    of the weight arbitrarily far away the result stays bounded. Where all models lie on one line, an
    interval may minimise; then the result is the point of it that ``CoordinateMedian`` documents.

    Args:
        delta: δ ≥ 0, in parameter units.

    Paper: Section "Robust Aggregation"; Table 1; eq. (aggregation_def) with ψ = L2(δ).
    """

    delta: float = static_field(default=0.0)
    propagates_nan = True

    def __post_init__(self) -> None:
        require_number(self.delta, "GeometricMedian.delta", least=0)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        if w_local.shape[1] == 1:
            return CoordinateMedian(self.delta).solve(w_local, weights, None)
        each = kernels.weights_or_ones(w_local, weights)
        each = each / each.max()

        def search() -> Aggregate:
            begin = _begin_few if len(w_local) <= FEW else _begin
            w = begin(w_local, each, self.delta) if start is None else start
            return _search(w_local, each, self.delta, w)[0]

        def search_line() -> Aggregate:
            line, holds_all = _line(w_local)
            on_it = lambda: _on_a_line(*line, weights, self.delta)  # noqa: E731
            return cond(w_local, holds_all, on_it, search)  # type: ignore[no-any-return]

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
    def solve_incremental(
        self, w_local: Matrix, start: Vector, memory: Any, changed: ChangedRows
    ) -> tuple[Aggregate, Any]:
        # Begin where the pulls of changed models lead. Of an interval of minimisers, it is any point.
        each, delta = kernels.weights_or_ones(w_local, None), self.delta
        w, r, pull = memory
        known = jnp.isfinite(jnp.sum(r))
        w, r, pull = (jnp.where(known, x, y) for x, y in ((w, start), (r, 0), (pull, 0)))
        ones = jnp.ones_like(changed.before[:, 0])
        _, before = kernels.pulls(changed.before, ones, delta, w)
        now, after = kernels.pulls(w_local[changed.rows], ones, delta, w)
        pull = jnp.where(known, pull + (after - before), 0)
        last = _evaluation(w_local, each, delta, w, r.at[changed.rows].set(now), pull)
        found, last = _search(w_local, each, delta, last.proposal)
        return found, (last.w, last.r, last.pull)


class Evaluation(NamedTuple):
    """The result of one pass over W at the point w."""

    w: Vector
    r: Vector
    """(N,): ‖w_k − w‖."""
    pull: Vector
    """(d,): Σ_k a_k (w_k − w) / max(r_k, δ), the negative gradient of f."""
    slope: Array
    """Σ_k a_k / max(r_k, δ)."""
    dominated: Array
    """Whether the nearest model makes up half of the slope, so that reweighted means creep."""
    proposal: Vector
    """(d,): where to go from w: to the reweighted mean w + pull / slope, or as ``_beside`` says."""

    @property
    def step(self) -> Any:
        """The way from w to the proposal."""
        return self.proposal - self.w


def _evaluation(
    w_local: Matrix, weights: Vector, delta: Any, w: Vector, r: Vector, pull: Vector
) -> Evaluation:
    xp = namespace(r)
    q = _reweighted(r, weights, delta)
    slope = q.sum()
    slope = xp.where(slope > 0, slope, 1)
    nearest = r.argmin()
    as_near = r <= r[nearest] * (1 + 1e-5)  # These count as one.
    others = xp.where(as_near, 0, q).sum()
    dominated = ((2 * others <= slope) & (others > 0)) | (xp.maximum(r[nearest], delta) == 0)
    proposal = cond(
        w_local, dominated & (r[nearest] >= delta),
        lambda: _beside(w, pull, row(w_local, nearest), others, xp.vdot(weights, as_near)),
        lambda: w + pull / slope, both=True,
    )  # fmt: skip
    return Evaluation(w, r, pull, slope, dominated, proposal)


def _beside(w: Vector, pull: Vector, place: Vector, others: Any, held: Any) -> Any:
    """Return the minimiser of one model's own term and of the quadratic that bounds the others'.

    It may be the model itself (Vardi and Zhang, 2000).

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
    w: Vector
    """The point to look at next."""
    here: Evaluation
    """The point before."""
    by_secant: Array
    """Whether w was reached by a secant step."""
    astray: Array
    """Whether the secant step before led away, so that w is where a reweighted mean would have led."""
    left: Array
    """‖·‖₂ of the step from ``here``."""
    iterations: Array
    converged: Array


def _search(
    w_local: Matrix, weights: Vector, delta: Any, w: Vector
) -> tuple[Aggregate, Evaluation]:
    """Iterate from w until it is certified."""
    xp = namespace(w_local)

    def turn(s: _State) -> _State:
        before, seen = s.here, kernels.pulls(w_local, weights, delta, s.w)
        here = _evaluation(w_local, weights, delta, s.w, *seen)
        left, converged = _certify(w_local, here, weights, delta)
        astray = s.by_secant & ~(left <= 2 * s.left)
        converged, astray = first_core_flags(xp.stack([converged, astray]), w_local)
        secant = (s.iterations > 0) & ~(astray | s.astray) & (here.dominated == before.dominated)
        secant = secant & (s.iterations < LINE_SEARCH_AFTER)

        def by_secant() -> Any:
            # Anderson's mix of both proposals, by the inner products of both steps.
            last = s.left * here.slope
            product = xp.vdot(here.slope * here.step, here.slope * before.step)
            change = (left * here.slope) ** 2 - 2 * product + last**2
            share = (last**2 - product) / xp.where(change > 0, change, 1)
            return share * here.proposal + (1 - share) * before.proposal

        def by_mean() -> Any:
            return xp.where(astray, before.proposal, here.proposal)

        w = cond(
            w_local, s.iterations > LINE_SEARCH_AFTER,
            lambda: _line_search(w_local, weights, delta, here, before),
            lambda: cond(w_local, secant, by_secant, by_mean, both=True),
        )  # fmt: skip
        left = xp.where(astray & ~converged, s.left, left)
        return _State(w, here, secant, astray, left, s.iterations + 1, converged)

    no, none, far = xp.asarray(False), xp.asarray(0, xp.int32), xp.asarray(xp.inf, w.dtype)
    nowhere = Evaluation(w, weights, w, far, no, w)  # A placeholder.
    first = _State(w, nowhere, no, no, far, none, no)
    go_on = lambda s: ~(s.converged | xp.isnan(s.left)) & (s.iterations < MOST_ITERATIONS)  # noqa: E731
    last = while_loop(w_local, go_on, turn, first)
    # The residual of the paper's recursion, which moves w by δ times the mean pull.
    left = xp.where(delta > 0, delta * _norm(last.here.pull) / weights.sum(), last.left)
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
    step, last = here.slope * here.step, here.slope * (here.w - before.w)
    turned = step - here.slope * before.step
    change = xp.vdot(last, turned)
    step = step - xp.where(change != 0, xp.vdot(step, turned) / change, 0) * last
    length = _norm(step)
    step = step / xp.where(length > 0, length, 1)
    along = w_local @ step - xp.vdot(here.w, step)
    off = xp.sqrt(xp.maximum(here.r - along, 0)) * xp.sqrt(xp.maximum(here.r + along, 0))

    def halve(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        low, high, count = state
        t = 0.5 * low + 0.5 * high
        away = along - t
        reach = xp.maximum(xp.hypot(off, away), delta)
        pull = xp.vdot(weights, away / xp.where(reach > 0, reach, 1))
        return xp.where(pull > 0, t, low), xp.where(pull > 0, high, t), count + 1

    ends = xp.min(along), xp.max(along), xp.asarray(0, xp.int32)
    low, high, _ = while_loop(w_local, lambda state: state[2] < 100, halve, ends)
    return here.w + (0.5 * low + 0.5 * high) * step


def _certify(w_local: Matrix, here: Evaluation, weights: Vector, delta: Any) -> tuple[Any, Any]:
    """Return the length of the step, and whether w is proven to be near enough.

    Let g be the gradient of f at w, A = Σ a_k and s the median distance of the models from w. One of
    these must hold:

    - Models within δ hold w like springs: f is m-strongly convex within 0.05 δ of w, m = Σ a_k/δ over
      r_k ≤ 0.95 δ, and ‖g‖/m bounds the distance to the minimiser, provided that it is at most 0.05 δ.
    - More than half of the weight, a share α, is within ρ = 3s of w. Then the minimiser is within
      L = α (2ρ + δ/2) / (2α − 1), since f is no larger there and h is 1-Lipschitz, and ‖g‖ L bounds how
      much larger f is at w.
    - Models within a tiny τ of w, of weight b together, resist the pull g' of all others: ‖g'‖ ≤ b.
      Farther than 2τb / (b − ‖g'‖) from w, f is larger than at w.
    - ‖g‖ is no larger than the rounding of the pulls and of w makes it.
    """
    xp = namespace(here.w)
    r, eps, longest = here.r, epsilon(here.w), STEP[here.w.dtype.itemsize]
    total, size = weights.sum(), _norm(here.pull)
    # Rounding moves w only in the columns in which models differ.
    rounding = 2 * eps * _norm(here.w * (here.pull != 0))
    spread = kernels.medians(r[:, None], weights)[0]
    q = _reweighted(r, weights, delta)
    # The slope without models so near that rounding decides in which direction they pull.
    firm = xp.vdot(q, r >= 0.01 * spread)
    # Rounding of w moves the gradient as a step of that length does, and each pull is rounded, too.
    noise = rounding * firm + 4 * eps * xp.vdot(q, r)
    gradient = xp.maximum(size - noise, 0)
    springs = xp.vdot(weights, r <= 0.95 * delta) / xp.where(delta > 0, delta, 1)
    springs = xp.where(delta > 0, springs, 0)
    distance = xp.maximum(gradient / xp.where(springs > 0, springs, 1) - rounding, 0)
    near = (springs > 0) & (distance <= xp.minimum(0.05 * delta, longest * spread))
    share = xp.vdot(weights, r <= 3 * spread) / total
    within = share * (6 * spread + 0.5 * delta) / xp.where(share > 0.5, 2 * share - 1, 1)
    low = (share > 0.5) & (delta <= spread) & (gradient / total * within <= ACCURACY * spread)
    low = low & (gradient <= longest * spread * firm)
    at_w = xp.maximum(r, delta) <= 0.2 * ACCURACY * spread + rounding

    def resisted() -> Any:
        held, tau = xp.vdot(weights, at_w), xp.max(xp.where(at_w, r, 0))
        far = xp.where(at_w, 0, q)
        total_far = far @ w_local if xp is np else jax_kernels.weighted_sum(w_local, far)
        others = _norm(total_far - far.sum() * here.w)
        allowed = ACCURACY * spread + rounding
        return 2 * (tau + delta) * held <= allowed * (held - others) + allowed * noise

    finite = xp.isfinite(r.sum()) & xp.isfinite(size)
    sure = near | low | (gradient == 0)
    sure = cond(w_local, ~sure & xp.any(at_w), resisted, lambda: sure)
    left = cond(w_local, here.dominated, lambda: _norm(here.step), lambda: size / here.slope)
    return left, sure & finite


def _norm(x: Vector) -> Any:
    """Return ‖x‖₂ without overflow or underflow."""
    xp = namespace(x)
    if xp is np and 1e-20 < (square := np.vdot(x, x)) < 1e30:
        return np.sqrt(square)
    largest = xp.max(xp.abs(x))
    scaled = x / xp.where(largest > 0, largest, 1)
    return largest * xp.sqrt(xp.sum(scaled * scaled))


def _begin(w_local: Matrix, weights: Vector, delta: Any) -> Any:
    """Return a mean that is reweighted by roughly the distances: those in some of the columns."""
    some = w_local[:, _some(w_local.shape[1], SAMPLE_COLUMNS)]
    delta = delta * (some.shape[1] / w_local.shape[1]) ** 0.5
    r, _ = kernels.pulls(some, weights, delta, kernels.medians(some, None))
    q = _reweighted(r, weights, delta)
    return kernels.weighted_sum(w_local, q / q.sum())


def _begin_few(w_local: Matrix, weights: Vector, delta: Any) -> Any:
    """Return the median but for rounding: reweighted means, by the inner products of the models."""
    xp = namespace(w_local)
    products = xp.matmul(w_local, w_local.T)

    def turn(state: tuple[Any, Any]) -> tuple[Any, Any]:
        p, count = state
        along = products @ p
        squares = xp.diagonal(products) - 2 * along + xp.vdot(p, along)
        q = _reweighted(xp.sqrt(xp.maximum(squares, 0)), weights, delta)
        return q / q.sum(), count + 1

    first = weights / weights.sum(), xp.asarray(0, xp.int32)
    p, _ = while_loop(w_local, lambda state: state[1] < 30, turn, first)
    return kernels.weighted_sum(w_local, p)


def _some(total: int, count: int) -> Any:
    """Return at most ``count`` of ``total`` rows or columns, spread evenly."""
    count = min(total, count)
    return np.array([(2 * i + 1) * total // (2 * count) for i in range(count)])


# ---- Models on one line, where the minimisers may form an interval


def _may_be_collinear(w_local: Matrix) -> Any:
    """Return False if three models in a row, in some columns, are surely not on one line."""
    xp = namespace(w_local)
    n, d = w_local.shape
    some = w_local[_some(n, SAMPLE_ROWS), :: max(d // SAMPLE_COLUMNS, 1)]
    steps = some[1:] - some[:-1]
    squares = (steps * steps).sum(axis=1)
    products = (steps[1:] * steps[:-1]).sum(axis=1)
    both = squares[1:] * squares[:-1]
    return ~xp.any(both - products * products > 1e-3 * both)  # True if squares overflow.


def _line(w_local: Matrix) -> tuple[tuple[Vector, Vector, Vector], Array]:
    """Fit a line through a model amid the others and the one farthest from it.

    Returns:
        The line (its origin, its direction and the places of the models on it, in units of the
        direction), and whether all models lie on it, up to their rounding.
    """
    xp = namespace(w_local)
    middle = kernels.medians(w_local, None)

    def each(function: Any) -> Any:  # Model by model, because all at once would be another W.
        return function(w_local) if xp is np else jax.lax.map(function, w_local)

    def largest(x: Any) -> Any:
        return xp.max(xp.abs(x), axis=-1)

    def place(models: Any) -> tuple[Any, Any]:
        away = (models - origin) / unit
        along = xp.sum(away * scaled, axis=-1) / xp.where(square > 0, square, 1)
        off = largest(away - along[..., None] * scaled) * unit
        return along, off <= 16 * epsilon(away) * (largest(models) + largest(origin))

    origin = row(w_local, each(lambda models: largest(models - middle)).argmin())
    direction = row(w_local, each(lambda models: largest(models - origin)).argmax()) - origin
    unit = largest(direction)
    unit = xp.where(unit > 0, unit, 1)
    scaled = direction / unit
    square = xp.sum(scaled * scaled)
    along, on_it = each(place)
    return (origin, direction, along), xp.all(on_it)


def _on_a_line(
    origin: Vector, direction: Vector, along: Vector, weights: Vector | None, delta: Any
) -> Aggregate:
    """Return the median of models on one line, by their places on it."""
    xp = namespace(origin)
    length = _norm(direction)
    found = CoordinateMedian(delta).solve((along * length)[:, None], weights, None)
    w = origin + (found.w[0] / xp.where(length > 0, length, 1)) * direction
    residual = xp.asarray(found.residual, w.dtype)
    return Aggregate(w, xp.asarray(1, xp.int32), residual, xp.asarray(found.converged))
