"""Aggregates found by other means, in float64: SciPy roots and sorted breakpoints."""

import numpy as np
from scipy import optimize


def spread(models, centre):
    """What errors are relative to: the size of the result and of the parties' typical distance."""
    return np.linalg.norm(centre) + np.median(np.linalg.norm(models - centre, axis=1))


def weighted_median(values, weights):
    """The midpoint of all minimisers of Σ a|w_k − w| over a vector."""
    values, weights = values[weights > 0], weights[weights > 0]
    order = np.argsort(values)
    values, total = values[order], np.cumsum(weights[order])
    half = total[-1] / 2
    low = values[np.searchsorted(total, half * (1 - 1e-9))]
    high = values[np.searchsorted(total, half * (1 + 1e-9))]
    return (low + high) / 2


def soft_median(values, weights, delta):
    """The root of Σ a clip(w_k − w, −δ, δ) nearest the mean, from its sorted breakpoints."""
    values, weights = values[weights > 0], weights[weights > 0]

    def pull(w):
        return np.sum(weights * np.clip((values - w) / delta, -1, 1))

    points = np.unique(np.concatenate([values - delta, values + delta]))
    pulls = np.array([pull(p) for p in points])
    none = np.abs(pulls) <= 1e-9 * weights.sum()
    if none.any():
        inside = points[none]
        return np.clip(np.average(values, weights=weights), inside.min(), inside.max())
    i = np.flatnonzero(pulls > 0)[-1]
    return optimize.brentq(pull, points[i], points[i + 1], xtol=1e-15, rtol=1e-14)


def soft_geometric_median(models, weights, delta):
    """The zero of the pulls Σ a (w_k − w)/max(‖w_k − w‖, δ), by SciPy's hybrid method."""
    models, weights = models[weights > 0], weights[weights > 0]
    weights = weights / weights.sum()

    def pull(w):
        x = models - w
        return (weights / np.maximum(np.linalg.norm(x, axis=1), delta)) @ x

    start = np.array([weighted_median(column, weights) for column in models.T])
    for _ in range(200):  # A crude approach first: SciPy's method wants to begin near.
        r = np.maximum(np.linalg.norm(models - start, axis=1), delta)
        start = (weights / r) @ models / np.sum(weights / r)
    scale = max(np.median(np.linalg.norm(models - start, axis=1)), delta)
    found = optimize.root(lambda u: pull(start + scale * u), np.zeros_like(start), tol=1e-13)
    return start + scale * found.x
