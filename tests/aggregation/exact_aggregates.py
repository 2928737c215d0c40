"""Reference aggregates that share no code and no arithmetic with the library.

Coordinatewise aggregates are computed with Python's integers: every float is a multiple of 2^-1074, so
nothing is rounded. Geometric medians are minimised by Newton's method in NumPy's ``longdouble``; for
collinear models they are one-dimensional and exact, too.

All functions take models of shape (N, d) or a column of shape (N,), and weights of shape (N,).
"""

from fractions import Fraction
from math import gcd, isqrt
from typing import NamedTuple

import numpy as np

UNIT = 2**1074


def integers(values):
    """Return the floats ``values`` as integers, in units of 2^-1074."""
    ratios = (float(value).as_integer_ratio() for value in np.asarray(values).ravel())
    return [top * (UNIT // bottom) for top, bottom in ratios]


def shares(weights):
    """Return the weights as integers without a common divisor."""
    units = integers(weights)
    divisor = gcd(*units)
    return [unit // divisor for unit in units]


def weighted(models, weights=None):
    """Return the models with a positive weight, and their weights."""
    weights = np.ones(len(models)) if weights is None else np.asarray(weights)
    return np.asarray(models)[weights > 0], weights[weights > 0]


def median_interval(values, weights):
    """Return the ends of the interval of all w that minimise Σ a_k |w_k − w|."""
    total, below, low = sum(weights), 0, None
    for value, weight in sorted(zip(values, weights, strict=True)):
        below += weight
        if low is None and 2 * below >= total:
            low = value
        if 2 * below > total:
            return low, value
    raise AssertionError("The weights are not positive.")


def clipped_sum(values, weights, delta, w):
    """Return G(w) = Σ a_k clip(w_k − w, −δ, δ), which does not increase with w."""
    return sum(
        a * max(-delta, min(delta, value - w)) for value, a in zip(values, weights, strict=True)
    )


def soft_median_interval(values, weights, delta):
    """Return the ends of the interval of all roots of G, which is linear between the points w_k ± δ."""

    def g(w):
        return clipped_sum(values, weights, delta, w)

    points = sorted({value + shift for value in values for shift in (-delta, delta)})
    first, last = 0, len(points) - 1
    while last - first > 1:  # G > 0 at ``first`` (or it is the leftmost) and G ≤ 0 at ``last``.
        middle = (first + last) // 2
        first, last = (middle, last) if g(points[middle]) > 0 else (first, middle)
    if g(points[first]) == 0:
        last = first
    if g(points[last]) < 0:
        left, right = points[first], points[last]
        root = left + Fraction((right - left) * g(left), g(left) - g(right))
        return root, root
    end = last
    while end + 1 < len(points) and g(points[end + 1]) == 0:
        end += 1
    return points[last], points[end]


def average(values, weights):
    """Return Σ a_k w_k / Σ a_k."""
    return Fraction(sum(a * w for a, w in zip(weights, values, strict=True)), sum(weights))


def nearest_to_mean(interval, values, weights):
    """Return the interval's point nearest to the weighted mean of the values."""
    return max(interval[0], min(interval[1], average(values, weights)))


def longdouble(number):
    """Return a Fraction in units of 2^-1074 as a ``longdouble``."""
    number = Fraction(number) / UNIT
    high = float(number)
    return np.longdouble(high) + np.longdouble(float(number - Fraction(high)))


def mean(models, weights):
    """Return the weighted mean."""
    weights = shares(weights)
    return np.array([longdouble(average(integers(c), weights)) for c in np.asarray(models).T])


def coordinate_median(models, weights):
    """Return the midpoint of the minimisers of Σ a_k |w_k − w| in each coordinate."""
    weights = shares(weights)
    ends = [median_interval(integers(column), weights) for column in np.asarray(models).T]
    return np.array([longdouble(Fraction(low + high, 2)) for low, high in ends])


def soft_coordinate_median(models, weights, delta):
    """Return the root of G nearest to the mean in each coordinate."""
    weights, (delta,) = shares(weights), integers([delta])
    columns = [integers(column) for column in np.asarray(models).T]
    intervals = [soft_median_interval(column, weights, delta) for column in columns]
    pairs = zip(intervals, columns, strict=True)
    return np.array(
        [longdouble(nearest_to_mean(interval, column, weights)) for interval, column in pairs]
    )


class Minimiser(NamedTuple):
    """A minimiser of f(w) = Σ a_k h(‖w_k − w‖) / Σ a_k; h(r) = r²/2δ up to δ, r − δ/2 beyond."""

    w: np.ndarray
    slope: float
    """The length of the smallest subgradient at w; 0 if w is exact."""
    curvature: float
    """A lower bound on the second derivative of f at w in all directions; infinite at a kink."""


def distances(models, w):
    """Return (N,), ‖w_k − w‖."""
    return np.sqrt(np.sum((np.asarray(models, np.longdouble) - w) ** 2, axis=1))


def gap(models, weights, delta, w, other):
    """Return f(w) − f(other) without cancellation, by differences of squares."""
    w, other = np.asarray(w, np.longdouble), np.asarray(other, np.longdouble)
    models, weights = np.asarray(models, np.longdouble), np.asarray(weights, np.longdouble)
    r, q = distances(models, w), distances(models, other)
    total = np.where(r + q > 0, r + q, 1)
    squares = np.sum((other - w) * ((models - w) + (models - other)), axis=1)
    if delta == 0:
        terms = squares / total
    else:
        envelope = [np.where(s > delta, s - delta / 2, s * (s / delta) / 2) for s in (r, q)]
        terms = envelope[0] - envelope[1]
        terms = np.where((r > delta) & (q > delta), squares / total, terms)
        terms = np.where((r <= delta) & (q <= delta), squares / delta / 2, terms)
    return float(np.sum(weights * terms) / np.sum(weights))


def geometric_median(models, weights, delta=0.0):
    """Return a minimiser of f: of several, the one nearest to the mean, or the midpoint if δ = 0."""
    points, inverse = np.unique(np.asarray(models), axis=0, return_inverse=True)
    a = np.zeros(len(points), np.longdouble)
    np.add.at(a, inverse.ravel(), np.asarray(weights, np.longdouble))
    line = _fit_line(points)
    if line is not None:
        # Integers, because rounding must not decide whether the minimisers form an interval.
        totals = [0] * len(points)
        for row, weight in zip(inverse.ravel(), shares(weights), strict=True):
            totals[row] += weight
        return _solve_on_line(*line, totals, delta)
    points, a, delta = points.astype(np.longdouble), a / a.sum(), np.longdouble(delta)
    lowest = min(range(len(points)), key=lambda k: gap(points, a, delta, points[k], points[0]))
    # Coordinates relative to the best model are precise near it; those relative to 0 are precise for
    # small models.
    result = _minimise(points, a, delta, lowest, points[lowest])
    return result if result.slope <= 1e-15 else _minimise(points, a, delta, lowest, 0 * points[0])


def _fit_line(points):
    """Return exact t_k, base and direction u with w_k = base + t_k u, or None."""
    rows = [integers(point) for point in points]
    base = rows[0]
    away = [[x - b for x, b in zip(row, base, strict=True)] for row in rows]
    direction = away[-1]
    pivot = max(range(len(base)), key=lambda i: abs(direction[i]))
    if len(points) == 1:
        return [Fraction(0)], base, [0] * len(base)
    for row in away:
        if any(x * direction[pivot] != row[pivot] * u for x, u in zip(row, direction, strict=True)):
            return None
    return [Fraction(row[pivot], direction[pivot]) for row in away], base, direction


def _solve_on_line(t, base, direction, weights, delta):
    """Return the minimiser for collinear models, whose coordinates on the line are t."""
    length = Fraction(isqrt(sum(u * u for u in direction) << 400), 1 << 200)
    if delta and length:
        within = integers([delta])[0] / length
        at = nearest_to_mean(soft_median_interval(t, weights, within), t, weights)
    else:
        at = sum(median_interval(t, weights)) / 2
    w = np.array([longdouble(b + at * u) for b, u in zip(base, direction, strict=True)])
    return Minimiser(w, 0.0, 0.0)


def _minimise(points, a, delta, lowest, base):
    """Return the minimiser by Newton's method from the best model, relative to ``base``."""
    d = points.shape[1]
    points = points - base
    size, tiny = np.ptp(points, axis=0).max(), np.finfo(np.longdouble).tiny

    def terms(w):
        x = points - w
        r = np.sqrt(np.sum(x**2, axis=1))
        return x, r, np.where(np.maximum(r, delta) > 0, a / np.maximum(r, max(delta, tiny)), 0)

    def gradient(w):
        x, _, share = terms(w)
        return -share @ x

    def hessian(w, edge=1.0):
        x, r, share = terms(w)
        far = (r > edge * delta) & (r > 0)
        unit = x / np.where(r > 0, r, 1)[:, None]
        return np.sum(share) * np.eye(d) - (np.where(far, share, 0)[:, None] * unit).T @ unit

    def newton_step(h, slope):
        scale = np.trace(h) / d
        step = np.linalg.solve((h / scale).astype(float) + 1e-14 * np.eye(d), slope.astype(float))
        step = step.astype(np.longdouble) / scale
        return -step * min(1, size / max(np.abs(step).max(), tiny))

    w, slope = points[lowest], gradient(points[lowest])
    excess = np.sqrt(np.sum(slope**2)) - a[lowest]
    if delta == 0 and excess <= 0:
        return Minimiser(base + w, 0.0, np.inf if excess < -0.1 else 0.0)
    if excess > 0:  # The gradient of the other models outweighs this model.
        _, r, share = terms(w)
        w = w - slope * (excess / (excess + a[lowest])) / np.sum(share[r > 0])
    for _ in range(300):
        slope, (_, r, share) = gradient(w), terms(w)
        if np.sqrt(np.sum(slope**2)) <= 1e-18 * (share @ r):
            break
        step = newton_step(hessian(w), slope)
        for _ in range(40):
            if gradient(w + step) @ step <= -(slope @ step) / 2:  # The step is not too long.
                break
            step = step / 2
        else:
            step = -slope / np.sum(share[r > 0])  # Weiszfeld's step never ascends.
        w = w + step
    slope = np.sqrt(np.sum(gradient(w) ** 2))
    lower = hessian(w, edge=0.999)
    scale = np.trace(lower) / d
    curvature = np.linalg.eigvalsh((lower / scale).astype(float))[0] * scale
    return Minimiser(base + w, float(slope), float(curvature))
