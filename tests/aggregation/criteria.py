"""How far an aggregate is from the exact one, as a share of what is allowed.

Every function returns a number that is at most 1 if ``w`` is a minimiser to 1e-5 of the spread of the
models, which is their weighted median distance from the exact minimiser. Rounding is allowed on top, by
the dtype of ``w``: that of the result itself, and that of the sums of pulls.
"""

import exact
import numpy as np

SHARE = 1e-5


def rounding(count, dtype):
    """The relative error that is allowed to a sum of so many numbers, and to what is made of it."""
    return (16 + count / 2) * float(np.finfo(dtype).eps)


def spread(r, weights):
    """The weighted median of the distances ``r``, of each column."""
    order = np.argsort(r, axis=0)
    below = np.cumsum(np.asarray(weights, np.longdouble)[order], axis=0)
    middle = np.argmax(2 * below > below[-1], axis=0)
    return np.take_along_axis(np.take_along_axis(r, order, axis=0), middle[None], axis=0)[0]


def mean_error(models, weights, w):
    """Of a weighted mean, coordinate by coordinate."""
    centre = exact.mean(models, weights)
    r = np.abs(models - centre)
    return float(np.max(np.abs(w - centre) / _allowed(w, centre, r, weights, np.inf)))


def coordinate_median_error(models, weights, w):
    """Of a coordinatewise median."""
    centre = exact.coordinate_median(models, weights)
    return _coordinate_error(models, weights, 0, w, centre)


def soft_coordinate_median_error(models, weights, delta, w):
    """Of a δ-coordinatewise median."""
    centre = exact.soft_coordinate_median(models, weights, delta)
    return _coordinate_error(models, weights, delta, w, centre)


def geometric_median_error(models, weights, delta, w):
    """Of a geometric median (δ = 0) or δ-geometric median.

    By the distance from the exact one if the objective determines it: if half of the models are within
    δ, or if it curves upwards in all directions. Else by how much the objective is above its minimum.
    """
    best = exact.geometric_median(models, weights, delta)
    w, info = np.asarray(w, np.longdouble), np.finfo(w.dtype)
    r = exact.distances(models, best.w)
    s = float(spread(r[:, None], weights)[0])
    size, noise = float(np.sqrt(np.sum(best.w**2))), rounding(len(models), info.dtype)
    tiny = 4 * float(info.tiny) * len(w) ** 0.5
    near = 0 < delta >= s
    curvature = max(best.curvature, 0.5 / delta) if near else best.curvature
    if near or curvature == np.inf or curvature * s >= 0.1:
        pull = float(np.average(np.minimum(1, r / delta) if delta else r > 0, weights=weights))
        allowed = SHARE * s + noise * (size + pull / curvature) + tiny
        if best.slope / curvature <= 0.01 * allowed:
            return float(np.sqrt(np.sum((w - best.w) ** 2))) / allowed
    above = exact.gap(models, weights, delta, w, best.w)
    return max(above, 0) / (SHARE * s * min(1, s / delta if delta else 1) + noise * size + tiny)


def geometric_objective_error(models, weights, delta, w):
    """Of a (δ-)geometric median by the objective alone, for weights that balance but for rounding."""
    best = exact.geometric_median(models, weights, delta)
    r = exact.distances(models, best.w)
    s, size = float(spread(r[:, None], weights)[0]), float(np.sqrt(np.sum(best.w**2)))
    above = exact.gap(models, weights, delta, np.asarray(w, np.longdouble), best.w)
    return max(above, 0) / (SHARE * s + rounding(len(models), w.dtype) * size)


def _allowed(w, centre, r, weights, delta):
    info = np.finfo(w.dtype)
    pull = np.average(np.minimum(r, delta), axis=0, weights=weights)
    noise = rounding(len(r), w.dtype) * (np.abs(centre) + pull) + 4 * info.tiny
    return SHARE * spread(r, weights) + noise


def _coordinate_error(models, weights, delta, w, centre):
    allowed = _allowed(w, centre, np.abs(models - centre), weights, delta)
    errors = np.abs(w - centre) / allowed
    if not _sums_are_exact(weights, w.dtype):
        for j in np.flatnonzero(errors > 1):
            share = _weight_that_disagrees(models[:, j], weights, delta, w[j], allowed[j])
            errors[j] = min(errors[j], share / rounding(len(models), w.dtype))
    return float(errors.max())


def _sums_are_exact(weights, dtype):
    """Whether no sum of weights is rounded, such as those of counts."""
    return sum(exact.shares(weights)) < 1 << np.finfo(dtype).nmant


def _weight_that_disagrees(column, weights, delta, w, allowed):
    """The share of weight whose rounding would put the root into [w − allowed, w + allowed]."""
    values, weights = exact.integers(column), exact.shares(weights)
    left, right = exact.integers([w - allowed, w + allowed])
    (delta,) = exact.integers([delta])
    delta = delta or 1  # Less than any difference of floats: a median.
    scale = sum(weights) * delta
    above = exact.clipped_sum(values, weights, delta, right) / scale
    below = exact.clipped_sum(values, weights, delta, left) / scale
    return max(above, -below, 0.0)
