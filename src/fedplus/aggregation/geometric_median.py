"""The geometric median and the δ-geometric median, by reweighted means with secant steps.

They minimise f(w) = Σ_k a_k h(‖w_k − w‖), with h(r) = r − δ/2 for r > δ and r²/2δ for r ≤ δ. Its
negative gradient is Σ_k q_k (w_k − w), with q_k = a_k / max(‖w_k − w‖, δ). Weiszfeld's iteration moves
w by the negative gradient divided by Σ_k q_k, that is, to a reweighted mean of the models. It usually
converges slowly in one direction, that of the outliers; a secant step (Anderson acceleration with a
memory of one) corrects this. Each iteration is one pass over W.
"""

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from fedplus._backend import cond, namespace, take_row, while_loop
from fedplus._spmd import first_core_flags
from fedplus._types import Array, Matrix, Vector, epsilon, settings, static_field
from fedplus.aggregation import jax_kernels, kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, ChangedRows
from fedplus.aggregation.coordinate_median import CoordinateMedian
from fedplus.check import require_number

MAX_ITERATIONS = 300
LINE_SEARCH_AFTER = 12
"""The number of iterations after which each step is a line search."""
CONJUGATE_EVERY = 3
"""Every third line search is in a conjugate direction. With only such directions, it may stall."""
MAX_STEP = {4: 1e-6, 8: 1e-11}
"""The longest step at which the iteration may stop, relative to the median distance of the models from
w, by the number of bytes of an entry."""
ACCURACY = 1e-5
"""The largest distance of w from the minimiser, or of f(w)/Σ a_k from its minimum, relative to the
median distance of the models from w."""
MAX_GRAM = 16
"""The largest number of models for which the start is computed from their inner products."""
SAMPLE_ROWS, SAMPLE_COLUMNS = 15, 64
"""The size of the part of W that gives a start and shows whether the models may be collinear."""


@final
@settings
class GeometricMedian(AbstractAggregator):
    r"""The geometric median (RFA, Pillutla et al., 2019) and, for δ > 0, the δ-geometric median.

    .. math:: \operatorname{argmin}_w \tfrac1N \sum_k \|w_k - w\|_2

    For δ > 0 it minimises the Moreau envelope of ψ = L2(δ) instead (FedGeoMed+). If less than half of
    the weight is arbitrarily far away, the result stays bounded. If all models are collinear, the
    minimisers may form an interval; the result is then the point that ``CoordinateMedian`` documents.

    Args:
        delta: Radius δ ≥ 0, in parameter units. 0: the geometric median.

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
        a = kernels.weights_or_ones(w_local, weights)
        a = a / a.max()

        def minimise() -> Aggregate:
            first_point = _start_from_gram if len(w_local) <= MAX_GRAM else _start_from_sample
            w = first_point(w_local, a, self.delta) if start is None else start
            return _minimise(w_local, a, self.delta, w)[0]

        def minimise_on_line() -> Aggregate:
            line, is_collinear = _fit_line(w_local)
            on_line = lambda: _median_on_line(*line, weights, self.delta)  # noqa: E731
            return cond(w_local, is_collinear, on_line, minimise)  # type: ignore[no-any-return]

        result: Aggregate = cond(w_local, _may_be_collinear(w_local), minimise_on_line, minimise)
        return result

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        """Return an empty memory: the last median, its distances from all models, and −∇f there.

        Infinite distances mark it as empty.
        """
        if w.size == 1 or 4 * changed > parties:
            return ()
        return jnp.zeros_like(w), jnp.full(parties, jnp.inf, w.dtype), jnp.zeros_like(w)

    @override
    def solve_incremental(
        self,
        w_local: Matrix,
        counted: Array | None,
        start: Vector,
        memory: Any,
        changed: ChangedRows,
    ) -> tuple[Aggregate, Any]:
        # The first step comes from the updated gradient at the last median. If the minimisers form an
        # interval, the result may be any of its points.
        delta = self.delta
        a = kernels.weights_or_ones(
            w_local, None if counted is None else counted.astype(w_local.dtype)
        )
        w, r, descent = memory
        is_known = jnp.isfinite(jnp.sum(r))
        w, r, descent = (jnp.where(is_known, x, y) for x, y in ((w, start), (r, 0), (descent, 0)))
        ones = jnp.ones_like(changed.before[:, 0])
        was_counted = ones if changed.counted is None else changed.counted.astype(ones.dtype)
        _, before = kernels.distances_and_descent(changed.before, was_counted, delta, w)
        new_r, after = kernels.distances_and_descent(
            w_local[changed.rows], a[changed.rows], delta, w
        )
        descent = jnp.where(is_known, descent + (after - before), 0)
        last = _evaluate(w_local, a, delta, w, r.at[changed.rows].set(new_r), descent)
        result, last = _minimise(w_local, a, delta, last.proposal)
        return result, (last.w, last.r, last.descent)


class Evaluation(NamedTuple):
    """The result of one pass over W at the point w."""

    w: Vector
    r: Vector
    """(N,): ‖w_k − w‖."""
    descent: Vector
    """(d,): the negative gradient −∇f(w) = Σ_k q_k (w_k − w), with q_k = a_k / max(r_k, δ)."""
    slope: Array
    """Σ_k q_k."""
    is_dominated: Array
    """True if the nearest model has half of the slope, so that reweighted means converge slowly."""
    proposal: Vector
    """(d,): the next point, the reweighted mean w + descent / slope or that of ``_near_model``."""

    @property
    def step(self) -> Any:
        """The step from w to the proposal."""
        return self.proposal - self.w


def _evaluate(
    w_local: Matrix, weights: Vector, delta: Any, w: Vector, r: Vector, descent: Vector
) -> Evaluation:
    """Return the evaluation at w from the results of the pass, ``r`` and ``descent``."""
    xp = namespace(r)
    q = _reweight(r, weights, delta)
    slope = q.sum()
    slope = xp.where(slope > 0, slope, 1)
    nearest = xp.where(weights > 0, r, xp.inf).argmin()
    is_nearest = r <= r[nearest] * (1 + 1e-5)  # Models as near as the nearest one count as one.
    other_slope = xp.where(is_nearest, 0, q).sum()
    is_dominated = (2 * other_slope <= slope) & (other_slope > 0)
    is_dominated = is_dominated | (xp.maximum(r[nearest], delta) == 0)

    def near_model() -> Any:
        weight = xp.vdot(weights, is_nearest)
        return _near_model(w, descent, take_row(w_local, nearest), other_slope, weight)

    use_model = is_dominated & (r[nearest] >= delta)
    proposal = cond(w_local, use_model, near_model, lambda: w + descent / slope, select=True)
    return Evaluation(w, r, descent, slope, is_dominated, proposal)


def _near_model(w: Vector, descent: Vector, model: Vector, other_slope: Any, weight: Any) -> Any:
    """Return the minimiser of one model's own term plus a quadratic that bounds the other terms.

    It may be the model itself (Vardi and Zhang, 2000).

    Args:
        w: The point of the last evaluation.
        descent: −∇f(w).
        model: The model.
        other_slope: Σ q_k of the other models.
        weight: The model's weight.
    """
    xp = namespace(w)
    away = w - model
    r = _norm(away)
    other_descent = descent + xp.where(r > 0, weight / xp.where(r > 0, r, 1), 0) * away
    other_slope = xp.where(other_slope > 0, other_slope, 1)
    direction = away + other_descent / other_slope
    force = other_slope * _norm(direction)
    return model + xp.maximum(1 - weight / xp.where(force > 0, force, 1), 0) * direction


def _reweight(r: Vector, weights: Vector, delta: Any) -> Any:
    """Return q_k = a_k / max(r_k, δ), without overflow; 0 for models at w if δ is 0."""
    xp = namespace(r)
    reach = xp.maximum(r, delta)
    most = 1e-6 * np.finfo(r.dtype).max
    return xp.where(reach > 0, weights / xp.maximum(reach, 1 / most), 0)


class _State(NamedTuple):
    w: Vector
    """The next point."""
    here: Evaluation
    """The evaluation at the last point."""
    by_secant: Array
    """True if a secant step led to w."""
    went_astray: Array
    """True if the last secant step led to a longer step, so that w is a reweighted mean instead."""
    step_length: Array
    """‖·‖₂ of the step from ``here``."""
    iterations: Array
    converged: Array


def _minimise(
    w_local: Matrix, weights: Vector, delta: Any, w: Vector
) -> tuple[Aggregate, Evaluation]:
    """Iterate from w until a point is certified; return it and its evaluation."""
    xp = namespace(w_local)

    def iterate(s: _State) -> _State:
        before = s.here
        r, descent = kernels.distances_and_descent(w_local, weights, delta, s.w)
        here = _evaluate(w_local, weights, delta, s.w, r, descent)
        length, converged = _certify(w_local, here, weights, delta)
        astray = s.by_secant & ~(length <= 2 * s.step_length)
        converged, astray = first_core_flags(xp.stack([converged, astray]), w_local)
        secant = (s.iterations > 0) & ~(astray | s.went_astray)
        secant = secant & (here.is_dominated == before.is_dominated)
        secant = secant & (s.iterations < LINE_SEARCH_AFTER)

        def by_secant() -> Any:
            # Anderson mixing of both proposals, with the inner products of both steps.
            last = s.step_length * here.slope
            product = xp.vdot(here.slope * here.step, here.slope * before.step)
            change = (length * here.slope) ** 2 - 2 * product + last**2
            share = (last**2 - product) / xp.where(change > 0, change, 1)
            return share * here.proposal + (1 - share) * before.proposal

        def by_mean() -> Any:
            return xp.where(astray, before.proposal, here.proposal)

        w = cond(
            w_local,
            s.iterations > LINE_SEARCH_AFTER,
            lambda: _line_search(
                w_local, weights, delta, here, before, s.iterations % CONJUGATE_EVERY == 0
            ),
            lambda: cond(w_local, secant, by_secant, by_mean, select=True),
        )
        length = xp.where(astray & ~converged, s.step_length, length)
        return _State(w, here, secant, astray, length, s.iterations + 1, converged)

    def is_unfinished(s: _State) -> Any:
        is_done = s.converged | xp.isnan(s.step_length)
        return ~is_done & (s.iterations < MAX_ITERATIONS)

    no, zero, infinite = xp.asarray(False), xp.asarray(0, xp.int32), xp.asarray(xp.inf, w.dtype)
    placeholder = Evaluation(w, weights, w, infinite, no, w)
    first = _State(w, placeholder, no, no, infinite, zero, no)
    last = while_loop(w_local, is_unfinished, iterate, first)
    # For δ > 0, the length of the step of the paper's recursion, which is δ · descent / Σ a_k.
    recursion_step = delta * _norm(last.here.descent) / weights.sum()
    residual = xp.where(delta > 0, recursion_step, last.step_length).astype(w_local.dtype)
    return Aggregate(last.here.w, last.iterations, residual, last.converged), last.here


def _line_search(
    w_local: Matrix,
    weights: Vector,
    delta: Any,
    here: Evaluation,
    before: Evaluation,
    conjugate: Any,
) -> Any:
    """Return the minimiser of f on a line through w.

    With ``conjugate``, its direction is conjugate to the last step. Otherwise it leads to the proposal,
    so that f decreases at least as much as by a reweighted mean. The search needs one pass over W, for
    the distances along the line. It is for models that are nearly collinear or in pairs, where the
    other steps converge slowly.
    """
    xp = namespace(w_local)
    step, last = here.slope * here.step, here.slope * (here.w - before.w)
    difference = step - here.slope * before.step
    curvature = xp.vdot(last, difference)
    share = xp.where(curvature != 0, xp.vdot(step, difference) / curvature, 0)
    step = step - xp.where(conjugate, share, 0) * last
    length = _norm(step)
    step = step / xp.where(length > 0, length, 1)
    along = w_local @ step - xp.vdot(here.w, step)
    off = xp.sqrt(xp.maximum(here.r - along, 0)) * xp.sqrt(xp.maximum(here.r + along, 0))

    def halve(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        low, high, count = state
        t = 0.5 * low + 0.5 * high
        away = along - t
        reach = xp.maximum(xp.hypot(off, away), delta)
        descent = xp.vdot(weights, away / xp.where(reach > 0, reach, 1))
        return xp.where(descent > 0, t, low), xp.where(descent > 0, high, t), count + 1

    ends = xp.min(along), xp.max(along), xp.asarray(0, xp.int32)
    low, high, _ = while_loop(w_local, lambda state: state[2] < 100, halve, ends)
    return here.w + (0.5 * low + 0.5 * high) * step


def _certify(w_local: Matrix, here: Evaluation, weights: Vector, delta: Any) -> tuple[Any, Any]:
    """Return the length of the step, and whether w is proven to be accurate enough.

    Let g be the gradient of f at w, A = Σ a_k and s the median distance of the models from w. One of
    these must hold:

    - f is m-strongly convex within 0.05 δ of w, with m = Σ a_k/δ over the models with r_k ≤ 0.95 δ.
      Then ‖g‖/m bounds the distance to the minimiser, provided that it is at most 0.05 δ.
    - More than half of the weight, a share α, is within ρ = 3s of w. Then the minimiser is within
      L = α (2ρ + δ/2) / (2α − 1) of w, since f is no larger there and h is 1-Lipschitz, and ‖g‖ L
      bounds the difference of f(w) to the minimum.
    - Models within a tiny τ of w, of total weight b, outweigh the gradient g' of all others: ‖g'‖ ≤ b.
      At distances beyond 2τb / (b − ‖g'‖) from w, f is larger than at w.
    - ‖g‖ is no larger than the rounding errors of its terms and of w.
    """
    xp = namespace(here.w)
    r, eps, max_step = here.r, epsilon(here.w), MAX_STEP[here.w.dtype.itemsize]
    total, size = weights.sum(), _norm(here.descent)
    # Rounding moves w only in the columns in which models differ.
    rounding = 2 * eps * _norm(here.w * (here.descent != 0))
    spread = kernels.medians(r[:, None], weights)[0]
    q = _reweight(r, weights, delta)
    # The slope without models so near that rounding decides the direction of their terms.
    far_slope = xp.vdot(q, r >= 0.01 * spread)
    # The rounding of w changes the gradient as a step of that length does, and each term is rounded.
    noise = rounding * far_slope + 4 * eps * xp.vdot(q, r)
    gradient = xp.maximum(size - noise, 0)
    convexity = xp.vdot(weights, r <= 0.95 * delta) / xp.where(delta > 0, delta, 1)
    convexity = xp.where(delta > 0, convexity, 0)
    distance = gradient / xp.where(convexity > 0, convexity, 1)
    is_near = (convexity > 0) & (distance <= 0.05 * delta)
    is_near = is_near & (distance - rounding <= max_step * spread)
    share = xp.vdot(weights, r <= 3 * spread) / total
    bound = share * (6 * spread + 0.5 * delta) / xp.where(share > 0.5, 2 * share - 1, 1)
    is_low = (share > 0.5) & (delta <= spread) & (gradient / total * bound <= ACCURACY * spread)
    is_low = is_low & (gradient <= max_step * spread * far_slope)
    at_w = (weights > 0) & (xp.maximum(r, delta) <= 0.2 * ACCURACY * spread + rounding)

    def is_outweighed() -> Any:
        b, tau = xp.vdot(weights, at_w), xp.max(xp.where(at_w, r, 0))
        q_others = xp.where(at_w, 0, q)
        others = q_others @ w_local if xp is np else jax_kernels.weighted_sum(w_local, q_others)
        other_gradient = _norm(others - q_others.sum() * here.w)
        allowed = ACCURACY * spread + rounding
        return 2 * (tau + delta) * b <= allowed * (b - other_gradient) + allowed * noise

    is_finite = xp.isfinite(r.sum()) & xp.isfinite(size)
    is_proven = is_near | is_low | (gradient == 0)
    is_proven = cond(w_local, ~is_proven & xp.any(at_w), is_outweighed, lambda: is_proven)
    length = cond(w_local, here.is_dominated, lambda: _norm(here.step), lambda: size / here.slope)
    return length, is_proven & is_finite


def _norm(x: Vector) -> Any:
    """Return ‖x‖₂ without overflow or underflow."""
    xp = namespace(x)
    if xp is np and 1e-20 < (square := np.vdot(x, x)) < 1e30:
        return np.sqrt(square)
    largest = xp.max(xp.abs(x))
    scaled = x / xp.where(largest > 0, largest, 1)
    return largest * xp.sqrt(xp.sum(scaled * scaled))


def _start_from_sample(w_local: Matrix, weights: Vector, delta: Any) -> Any:
    """Return a reweighted mean, with the distances in a sample of the columns."""
    sample = w_local[:, _sample_indices(w_local.shape[1], SAMPLE_COLUMNS)]
    delta = delta * (sample.shape[1] / w_local.shape[1]) ** 0.5
    r, _ = kernels.distances_and_descent(sample, weights, delta, kernels.medians(sample, None))
    q = _reweight(r, weights, delta)
    return kernels.weighted_sum(w_local, q / q.sum())


def _start_from_gram(w_local: Matrix, weights: Vector, delta: Any) -> Any:
    """Return the median up to rounding, by reweighted means in terms of the Gram matrix."""
    xp = namespace(w_local)
    gram = xp.matmul(w_local, w_local.T)

    def iterate(state: tuple[Any, Any]) -> tuple[Any, Any]:
        p, count = state
        products = gram @ p
        squares = xp.diagonal(gram) - 2 * products + xp.vdot(p, products)
        q = _reweight(xp.sqrt(xp.maximum(squares, 0)), weights, delta)
        return q / q.sum(), count + 1

    first = weights / weights.sum(), xp.asarray(0, xp.int32)
    p, _ = while_loop(w_local, lambda state: state[1] < 30, iterate, first)
    return kernels.weighted_sum(w_local, p)


def _sample_indices(total: int, count: int) -> Any:
    """Return at most ``count`` indices below ``total``, evenly spaced."""
    count = min(total, count)
    return np.array([(2 * i + 1) * total // (2 * count) for i in range(count)])


# ---- Collinear models, whose minimisers may form an interval


def _may_be_collinear(w_local: Matrix) -> Any:
    """Return False if three consecutive models of a sample are surely not collinear."""
    xp = namespace(w_local)
    n, d = w_local.shape
    sample = w_local[_sample_indices(n, SAMPLE_ROWS), :: max(d // SAMPLE_COLUMNS, 1)]
    steps = sample[1:] - sample[:-1]
    squares = (steps * steps).sum(axis=1)
    products = (steps[1:] * steps[:-1]).sum(axis=1)
    both = squares[1:] * squares[:-1]
    return ~xp.any(both - products * products > 1e-3 * both)  # True if squares overflow.


def _fit_line(w_local: Matrix) -> tuple[tuple[Vector, Vector, Vector], Array]:
    """Fit a line through a central model and the model farthest from it.

    Returns:
        The line (its origin, its direction, and the coordinates of the models on it in units of the
        direction), and whether all models lie on it up to their rounding.
    """
    xp = namespace(w_local)
    middle = kernels.medians(w_local, None)

    def for_each_model(function: Any) -> Any:  # In JAX one by one, to avoid another matrix like W.
        return function(w_local) if xp is np else jax.lax.map(function, w_local)

    def largest(x: Any) -> Any:
        return xp.max(xp.abs(x), axis=-1)

    def project(models: Any) -> tuple[Any, Any]:
        away = (models - origin) / unit
        along = xp.sum(away * scaled, axis=-1) / xp.where(square > 0, square, 1)
        off = largest(away - along[..., None] * scaled) * unit
        return along, off <= 16 * epsilon(away) * (largest(models) + largest(origin))

    central = for_each_model(lambda models: largest(models - middle)).argmin()
    origin = take_row(w_local, central)
    farthest = for_each_model(lambda models: largest(models - origin)).argmax()
    direction = take_row(w_local, farthest) - origin
    unit = largest(direction)
    unit = xp.where(unit > 0, unit, 1)
    scaled = direction / unit
    square = xp.sum(scaled * scaled)
    along, is_on_line = for_each_model(project)
    return (origin, direction, along), xp.all(is_on_line)


def _median_on_line(
    origin: Vector, direction: Vector, along: Vector, weights: Vector | None, delta: Any
) -> Aggregate:
    """Return the median of collinear models, from their coordinates on the line."""
    xp = namespace(origin)
    length = _norm(direction)
    median = CoordinateMedian(delta).solve((along * length)[:, None], weights, None)
    w = origin + (median.w[0] / xp.where(length > 0, length, 1)) * direction
    residual = xp.asarray(median.residual, w.dtype)
    return Aggregate(w, xp.asarray(1, xp.int32), residual, xp.asarray(median.converged))
