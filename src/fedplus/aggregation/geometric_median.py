"""The geometric median and the δ-geometric median: reweighted means with a secant step.

The minimiser of f(w) = Σ_k a_k h(‖w_k − w‖), with h(r) = r − δ/2 beyond δ and r²/2δ within, is where the
pulls a_k (w_k − w) / max(‖w_k − w‖, δ) of all parties cancel. Weiszfeld's iteration moves w by the sum of
the pulls divided by the sum of their weights a_k / max(‖w_k − w‖, δ). One direction, that of the outliers,
usually converges more slowly than all others; a secant step (Anderson acceleration with a memory of one)
takes care of it. Each iteration is one pass over W.
"""

from math import sqrt
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, epsilon, settings
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, Changed, cond, while_loop
from fedplus.aggregation.coordinate_median import CoordinateMedian, delta_coordinate_median
from fedplus.aggregation.sharing import agreed

MOST_ITERATIONS = 300
STEP = 1e-6
"""The longest step, in typical distances of the models, after which w stands still."""
ACCURACY = 1e-5
"""How near the minimiser w must be, or how near the minimum f(w)/Σ a_k, in typical distances."""
SAMPLE_ROWS, SAMPLE_COLUMNS = 21, 32


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
        return delta_geometric_median(w_local, weights, 0.0, start)

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        return init_pulls(w, parties, changed)

    @override
    def update(
        self, w_local: Matrix, weights: Vector | None, start: Vector, memory: Any, changed: Changed
    ) -> tuple[Aggregate, Any]:
        if memory == () or weights is not None:
            return self.solve(w_local, weights, start), memory
        return update_pulls(w_local, 0.0, start, memory, changed)


def delta_geometric_median(
    w_local: Matrix, weights: Vector | None, delta: Any, start: Vector | None
) -> Aggregate:
    """The minimiser of ψ = L2(δ)'s Moreau envelope; δ = 0: the geometric median.

    Where all models lie on one line, an interval may minimise; then it is the point that the
    one-dimensional medians return.
    """
    if w_local.shape[1] == 1:
        return _in_one_dimension(w_local, weights, delta)
    each = kernels.each_weight(w_local, weights)

    def search() -> Aggregate:
        begin = kernels.few_median(w_local, each, delta)
        if begin is None:
            begin = _median_of_some(w_local) if start is None else start
        return _search(w_local, each, delta, _first_look(w_local, each, delta, begin))[0]

    def search_line() -> Aggregate:
        origin, direction, along, collinear = _line(w_local)
        return cond(
            w_local, collinear,
            lambda: _on_a_line(origin, direction, along, weights, delta), search,
        )  # fmt: skip

    found: Aggregate = cond(w_local, _may_be_collinear(w_local), search_line, search)
    return found


class Look(NamedTuple):
    """What one pass over W finds at w, and how that differs from the last pass."""

    w: Vector
    r: Vector
    """(N,): ‖w_k − w‖."""
    step: Vector
    """Where a reweighted mean would move w: Σ_k q_k (w_k − w) / Σ_k q_k, q_k = a_k / max(r_k, δ)."""
    moved: Vector
    """w less the last w."""
    turned: Vector
    """``step`` less the last step."""


class _State(NamedTuple):
    look: Look
    left: Array
    """‖·‖₂ of the step."""
    iterations: Array
    converged: Array


def _look(w_local: Matrix, weights: Vector, delta: Any, unit: Any, w: Vector) -> tuple[Any, Any]:
    r, pull = kernels.pulls(w_local, weights, delta, unit, w)
    return r, pull / _slope(r, weights, delta, unit)


def _slope(r: Vector, weights: Vector, delta: Any, unit: Any) -> Any:
    """Σ_k a_k·unit / max(r_k, δ)."""
    xp = kernels.namespace(r)
    reach = xp.maximum(r, delta)
    q = xp.where(reach > 0, weights * (unit / xp.where(reach > 0, reach, 1)), 0)
    total = xp.sum(xp.minimum(q, 1e-3 * xp.finfo(r.dtype).max))
    return xp.where(total > 0, total, 1)


def _first_look(w_local: Matrix, weights: Vector, delta: Any, w: Vector) -> Look:
    xp = kernels.namespace(w_local)
    r, step = _look(w_local, weights, delta, _unit(w_local, delta, w), w)
    return Look(w, r, step, xp.zeros_like(w), xp.zeros_like(w))


def _search(
    w_local: Matrix, weights: Vector, delta: Any, first: Look, certifiable: Any = True
) -> tuple[Aggregate, Look]:
    """Iterate from what is known at one point until w is certified.

    ``certifiable``: False if ``first`` is not the result of a pass over all of W, so that w is not
    accepted before the next pass.
    """
    xp = kernels.namespace(w_local)

    def begin(look: Look) -> _State:
        left, converged, _ = _certify(look, weights, delta)
        zero = xp.asarray(0, xp.int32)
        left = xp.where(xp.asarray(certifiable), left, xp.inf).astype(left.dtype)
        return _State(look, left, zero + 1, agreed(converged & certifiable, w_local))

    def go_on(s: _State) -> Array:
        return ~s.converged & (s.iterations < MOST_ITERATIONS)

    def turn(s: _State) -> _State:
        before = s.look
        square = xp.sum(before.turned * before.turned)
        share = xp.sum(before.turned * before.step) / xp.where(square > 0, square, 1)
        share = xp.where(square > 0, share, 0)
        ahead = before.w + before.step - share * (before.moved + before.turned)
        unit = xp.maximum(_typical(before.r, weights), delta)
        unit = xp.where(unit > 0, unit, 1)
        steep, beside = _beside_a_model(before, w_local, weights, delta, unit)
        w = xp.where(steep, beside, ahead)
        r, step = _look(w_local, weights, delta, unit, w)
        none = xp.zeros_like(w)
        moved, turned = (xp.where(steep, none, by) for by in (w - before.w, step - before.step))
        look = Look(w, r, step, moved, turned)
        left, converged, finite = _certify(look, weights, delta)
        # A secant step that leads astray is taken back.
        astray = ~converged & finite & ~steep & (square > 0) & (left > 2 * s.left)
        back = before._replace(moved=none, turned=none)
        kept = Look(*(xp.where(astray, a, b) for a, b in zip(back, look, strict=True)))
        flags = agreed(xp.stack([converged, astray]), w_local)
        return _State(kept, xp.where(astray, s.left, left), s.iterations + 1, flags[0])

    last = while_loop(w_local, go_on, turn, begin(first))
    return Aggregate(last.look.w, last.iterations, last.left, last.converged), last.look


def _certify(look: Look, weights: Vector, delta: Any) -> tuple[Any, Any, Any]:
    """Return the length of the step, whether w is proven to be near the minimiser, and if all is finite.

    Let g be the gradient of f at w, A = Σ a_k and s the median distance of the models from w. Either

    - models within δ hold w like springs: f is m-strongly convex within 0.05 δ of w, m = Σ a_k/δ over
      r_k ≤ 0.95 δ, and ‖g‖/m bounds the distance to the minimiser; or
    - more than half of the weight, a share α, is within ρ = 3s of w. Then the minimiser is within
      L = α (2ρ + δ/2) / (2α − 1), since f is no larger there and h is 1-Lipschitz, and ‖g‖ L bounds how
      much larger f is at w.

    Models at w itself resist any pull up to their weight, unless δ is large enough to be seen.
    """
    xp = kernels.namespace(look.w)
    r, total = look.r, xp.sum(weights)
    eps = epsilon(look.w)
    size = _norm(look.w)
    spread = _typical(r, weights)
    rounding = 2 * eps * size
    left = _norm(look.step)
    unit = xp.where(spread > 0, spread, xp.where(size > 0, size, 1))
    slope = _slope(r, weights, delta, unit) / unit
    # The slope without models so near that rounding decides in which direction they pull.
    surely = xp.where((r <= delta) & (delta > 4 * rounding) | (r >= 0.01 * spread), weights, 0)
    firm = _slope(r, surely, delta, unit) / unit
    here = xp.sum(xp.where((r == 0) & (delta <= rounding), weights, 0))
    pulls = xp.sum(weights * (r / xp.maximum(xp.maximum(r, delta), xp.finfo(r.dtype).tiny)))
    # Rounding of w moves the gradient as a step of that length does, and each pull is rounded, too.
    gradient = xp.maximum(left * slope - rounding * firm - 4 * eps * pulls - here, 0)
    springs = xp.sum(xp.where(r <= 0.95 * delta, weights, 0)) / xp.where(delta > 0, delta, 1)
    distance = gradient / xp.where(springs > 0, springs, 1)
    near = (springs > 0) & (distance <= xp.minimum(0.05 * delta, ACCURACY * spread))
    share = xp.sum(xp.where(r <= 3 * spread, weights, 0)) / total
    within = share * (6 * spread + 0.5 * delta) / xp.where(share > 0.5, 2 * share - 1, 1)
    low = (share > 0.5) & (delta <= spread) & (gradient / total * within <= ACCURACY * spread)
    still = gradient <= STEP * spread * firm
    finite = xp.isfinite(xp.sum(r)) & xp.isfinite(left)
    return left, still & (near | low | (gradient == 0)) & finite, finite


def _norm(x: Vector) -> Any:
    """‖x‖₂ without overflow or underflow."""
    xp = kernels.namespace(x)
    largest = xp.max(xp.abs(x))
    scaled = x / xp.where(largest > 0, largest, 1)
    return largest * xp.sqrt(xp.sum(scaled * scaled))


def _typical(r: Vector, weights: Vector) -> Any:
    """The (weighted) median distance."""
    return kernels.medians(r[:, None], weights)[0]


def _beside_a_model(
    look: Look, w_local: Matrix, weights: Vector, delta: Any, unit: Any
) -> tuple[Any, Any]:
    """Find out whether one model makes up half of the slope, so that plain steps creep, and where to go.

    Then the minimiser of that model's own term and of the quadratic that bounds the others' is closer to
    the minimum; it may be the model itself (Vardi and Zhang, 2000). Models as near count as one.
    """
    xp = kernels.namespace(w_local)
    reach = xp.maximum(look.r, delta)
    nearest = xp.argmin(xp.where(weights > 0, reach, xp.inf))
    place = w_local[nearest]
    as_near = look.r <= look.r[nearest] * (1 + 1e-5)
    held = unit * xp.sum(xp.where(as_near, weights, 0))
    slope = _slope(look.r, weights, delta, unit)
    at_a_model = reach[nearest] == 0  # It does not pull then, but it resists.
    near = xp.where(at_a_model, 0, held / xp.where(at_a_model, 1, reach[nearest]))
    half = (2 * near >= slope) & (near < 0.999 * slope)
    steep = half & (look.r[nearest] > delta) | at_a_model
    others = xp.where(slope > near, slope - near, 1)
    pull = look.step * slope - near * (place - look.w)
    towards = look.w - place + pull / others
    strength = others * _norm(towards)
    share = xp.maximum(1 - held / xp.where(strength > 0, strength, 1), 0)
    return steep, place + share * towards


def _unit(w_local: Matrix, delta: Any, w: Vector) -> Any:
    """A typical distance from w, by its order of magnitude: the median over a sample of columns."""
    xp = kernels.namespace(w_local)
    columns = _some(w.size, SAMPLE_COLUMNS)
    largest = xp.max(xp.abs(w_local[:, columns] - w[columns]), axis=1)
    unit = xp.median(largest) * sqrt(w.size)
    unit = xp.where(unit > 0, unit, xp.max(largest) * sqrt(w.size))
    return xp.maximum(xp.where(unit > 0, unit, 1), delta)


def _some(total: int, count: int) -> Any:
    """At most ``count`` of ``total`` rows or columns, spread evenly."""
    count = min(total, count)
    return np.array([(2 * i + 1) * total // (2 * count) for i in range(count)])


def _median_of_some(w_local: Matrix) -> Vector:
    """The coordinatewise median of a few models, which outliers hardly move."""
    xp = kernels.namespace(w_local)
    rows = _some(len(w_local), SAMPLE_ROWS)
    found: Vector = kernels.medians(xp.ascontiguousarray(w_local[rows]) if xp is np else w_local[rows], None)
    return found


# ---- Models on one line, where the minimisers may form an interval


def _in_one_dimension(w_local: Matrix, weights: Vector | None, delta: Any) -> Aggregate:
    if isinstance(delta, float) and delta == 0:
        return CoordinateMedian().solve(w_local, weights, None)
    return delta_coordinate_median(w_local, weights, delta, None)


def _may_be_collinear(w_local: Matrix) -> Any:
    """Whether a sample of the columns does not rule out that all models lie on one line."""
    some = w_local[:, _some(w_local.shape[1], SAMPLE_COLUMNS)]
    return _line(some)[-1]


def _line(w_local: Matrix) -> tuple[Any, Any, Any, Any]:
    """Fit a line through a model amid the others and the one farthest from it.

    Returns:
        A point of the line, its direction, where on it each model is nearest, and whether all models lie
        on it up to their rounding.
    """
    xp = kernels.namespace(w_local)
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
    xp = kernels.namespace(origin)
    length = _norm(direction)
    column = (along * length)[:, None]
    found = _in_one_dimension(xp.ascontiguousarray(column) if xp is np else column, weights, delta)
    w = origin + (found.w[0] / xp.where(length > 0, length, 1)) * direction
    one = xp.asarray(1, xp.int32)
    residual = xp.asarray(found.residual, w.dtype)
    return Aggregate(w, one, residual, xp.asarray(found.converged))


# ---- The same where few models change


class PullMemory(NamedTuple):
    """The last search's final look: where it ended, and its secant."""

    look: Look
    """Distances are infinite if nothing is known."""


def init_pulls(w: Vector, parties: int, changed: int) -> PullMemory | tuple[()]:
    """Initial memory for ``update_pulls``, which knows nothing, or ``()`` if it does not help."""
    if w.size == 1 or 4 * changed > parties:
        return ()
    at, step, moved, turned = (jnp.zeros_like(w) for _ in range(4))
    return PullMemory(Look(at, jnp.full(parties, jnp.inf, w.dtype), step, moved, turned))


def update_pulls(
    w_local: Matrix, delta: Any, start: Vector, memory: PullMemory, changed: Changed
) -> tuple[Aggregate, Any]:
    """The δ-geometric median from the last one, and what to remember.

    What changed models pulled and now pull tells the sum of all pulls at the last median without a pass
    over W; the search goes on from there.
    """
    weights = kernels.each_weight(w_local, None)
    known = jnp.isfinite(jnp.sum(memory.look.r))
    look = jax.tree.map(lambda part: jnp.where(known, part, 0), memory.look)
    look = look._replace(w=jnp.where(known, look.w, start))
    unit = jnp.maximum(_typical(look.r, weights), delta)
    unit = jnp.where(unit > 0, unit, _unit(w_local[changed.rows], delta, look.w))
    ones = jnp.ones_like(changed.before[:, 0])
    _, before = kernels.pulls(changed.before, ones, delta, unit, look.w)
    r, now = kernels.pulls(w_local[changed.rows], ones, delta, unit, look.w)
    pull = look.step * _slope(look.r, weights, delta, unit) + (now - before)
    r = look.r.at[changed.rows].set(r)
    step = jnp.where(known, pull / _slope(r, weights, delta, unit), 0)
    found, last = _search(w_local, weights, delta, look._replace(r=r, step=step), certifiable=False)
    return found, PullMemory(last)
