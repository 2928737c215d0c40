"""The error of an aggregate relative to the allowed error.

Every function returns a number that is at most 1 if ``w`` is a minimiser up to 1e-5 of the spread of
the models, which is their weighted median distance from the exact minimiser. In addition, rounding
errors in the dtype of ``w`` are allowed: those of the result and those of the sums over the parties.
"""

import exact_aggregates as exact
import numpy as np

TOLERANCE = 1e-5


def rounding(count, dtype):
    """Return the relative rounding error that is allowed for a sum of ``count`` numbers."""
    return (16 + count / 2) * float(np.finfo(dtype).eps)


def spread(r, weights):
    """Return the weighted median of the distances ``r`` in each column."""
    order = np.argsort(r, axis=0)
    below = np.cumsum(np.asarray(weights, np.longdouble)[order], axis=0)
    middle = np.argmax(2 * below > below[-1], axis=0)
    return np.take_along_axis(np.take_along_axis(r, order, axis=0), middle[None], axis=0)[0]


def mean_error(models, weights, w):
    """Return the relative error of a weighted mean, the largest of all coordinates."""
    centre = exact.mean(models, weights)
    r = np.abs(models - centre)
    return float(np.max(np.abs(w - centre) / _allowed(w, centre, r, weights, np.inf)))


def coordinate_median_error(models, weights, w):
    """Return the relative error of a coordinatewise median."""
    centre = exact.coordinate_median(models, weights)
    return _coordinate_error(models, weights, 0, w, centre)


def soft_coordinate_median_error(models, weights, delta, w):
    """Return the relative error of a δ-coordinatewise median."""
    centre = exact.soft_coordinate_median(models, weights, delta)
    return _coordinate_error(models, weights, delta, w, centre)


def geometric_median_error(models, weights, delta, w):
    """Return the relative error of a geometric median (δ = 0) or δ-geometric median.

    It is the distance from the exact one if the objective determines it: if half of the models are
    within δ, or if it curves upwards in all directions. Else it is the gap of the objective.
    """
    best = exact.geometric_median(models, weights, delta)
    w, info = np.asarray(w, np.longdouble), np.finfo(w.dtype)
    r = exact.distances(models, best.w)
    s = float(spread(r[:, None], weights)[0])
    size, noise = float(np.sqrt(np.sum(best.w**2))), rounding(len(models), info.dtype)
    tiny = 4 * float(info.tiny) * len(w) ** 0.5
    half_within = 0 < delta >= s
    curvature = max(best.curvature, 0.5 / delta) if half_within else best.curvature
    if half_within or curvature == np.inf or curvature * s >= 0.1:
        force = float(np.average(np.minimum(1, r / delta) if delta else r > 0, weights=weights))
        allowed = TOLERANCE * s + noise * (size + force / curvature) + tiny
        if best.slope / curvature <= 0.01 * allowed:
            return float(np.sqrt(np.sum((w - best.w) ** 2))) / allowed
    gap = exact.gap(models, weights, delta, w, best.w)
    return max(gap, 0) / (TOLERANCE * s * min(1, s / delta if delta else 1) + noise * size + tiny)


def geometric_objective_error(models, weights, delta, w):
    """Return the relative gap of the objective of a (δ-)geometric median."""
    best = exact.geometric_median(models, weights, delta)
    r = exact.distances(models, best.w)
    s, size = float(spread(r[:, None], weights)[0]), float(np.sqrt(np.sum(best.w**2)))
    gap = exact.gap(models, weights, delta, np.asarray(w, np.longdouble), best.w)
    return max(gap, 0) / (TOLERANCE * s + rounding(len(models), w.dtype) * size)


def _allowed(w, centre, r, weights, delta):
    """Return the allowed error of each coordinate."""
    info = np.finfo(w.dtype)
    mean_term = np.average(np.minimum(r, delta), axis=0, weights=weights)
    noise = rounding(len(r), w.dtype) * (np.abs(centre) + mean_term) + 4 * info.tiny
    return TOLERANCE * spread(r, weights) + noise


def _coordinate_error(models, weights, delta, w, centre):
    allowed = _allowed(w, centre, np.abs(models - centre), weights, delta)
    errors = np.abs(w - centre) / allowed
    if not _sums_are_exact(weights, w.dtype):
        for j in np.flatnonzero(errors > 1):
            share = _disagreeing_weight(models[:, j], weights, delta, w[j], allowed[j])
            errors[j] = min(errors[j], share / rounding(len(models), w.dtype))
    return float(errors.max())


def _sums_are_exact(weights, dtype):
    """Return True if no sum of the weights is rounded, e.g. if they are counts."""
    return sum(exact.shares(weights)) < 1 << np.finfo(dtype).nmant


def _disagreeing_weight(column, weights, delta, w, allowed):
    """Return the share of the weight that keeps the root out of [w − allowed, w + allowed]."""
    values, weights = exact.integers(column), exact.shares(weights)
    left, right = exact.integers([w - allowed, w + allowed])
    (delta,) = exact.integers([delta])
    delta = delta or 1  # Smaller than any difference of floats, which gives the median.
    scale = sum(weights) * delta
    above = exact.clipped_sum(values, weights, delta, right) / scale
    below = exact.clipped_sum(values, weights, delta, left) / scale
    return max(above, -below, 0.0)
