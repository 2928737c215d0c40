"""``METRICS``: figures over all predictions for a party's samples, and bootstrap intervals.

A ``Task`` has one score, which is a mean over samples and is followed through the training. The metrics
here need all predictions together, and are computed once, for the models with which a run ends.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from fedplus._types import NumpyArray
from fedplus.models.task import BINARY, Task

CALIBRATION_BINS = 10
"""The number of bins of the calibration error, of equal width in the confidence."""


class Metric(NamedTuple):
    """A figure over predictions."""

    name: str
    kind: Literal["classes", "numbers"]
    """The kind of its predictions: probabilities (n, C) of classes 0, 1, ..., or numbers (n,)."""
    better: Literal["higher", "lower"]
    compute: Callable[[NumpyArray, NumpyArray], float]
    """(labels, predictions) ↦ the figure, or NaN where it is not defined."""
    meaning: str


def _accuracy(y: NumpyArray, p: NumpyArray) -> float:
    return float(np.mean(p.argmax(1) == y))


def _balanced_accuracy(y: NumpyArray, p: NumpyArray) -> float:
    is_right = p.argmax(1) == y
    return float(np.mean([is_right[y == c].mean() for c in np.unique(y)]))


def _f1(y: NumpyArray, p: NumpyArray) -> float:
    predicted = p.argmax(1)
    classes = np.array([1]) if p.shape[1] == 2 else np.union1d(y, predicted)
    both = np.array([np.sum((predicted == c) & (y == c)) for c in classes])
    either = np.array([np.sum(predicted == c) + np.sum(y == c) for c in classes])
    return float(np.mean(2 * both / np.maximum(either, 1)))


def _auc(y: NumpyArray, p: NumpyArray) -> float:
    return _mean_over_classes(_binary_auc, y, p)


def _average_precision(y: NumpyArray, p: NumpyArray) -> float:
    return _mean_over_classes(_binary_average_precision, y, p)


def _mean_over_classes(
    binary: Callable[[NumpyArray, NumpyArray], float], y: NumpyArray, p: NumpyArray
) -> float:
    """Return the value for the second of two classes, or the mean over one class against the rest."""
    classes = [1] if p.shape[1] == 2 else [c for c in np.unique(y) if not np.all(y == c)]
    return float(np.mean([binary(y == c, p[:, c]) for c in classes])) if classes else float("nan")


def _binary_auc(is_positive: NumpyArray, score: NumpyArray) -> float:
    positives = int(is_positive.sum())
    negatives = len(is_positive) - positives
    if not positives or not negatives:
        return float("nan")
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2  # Ties have the mean of their ranks.
    rank_sum = mean_rank[inverse][is_positive].sum()
    return float((rank_sum - positives * (positives + 1) / 2) / (positives * negatives))


def _binary_average_precision(is_positive: NumpyArray, score: NumpyArray) -> float:
    positives = int(is_positive.sum())
    if not positives:
        return float("nan")
    order = np.argsort(-score, kind="stable")
    is_last_of_ties = np.append(np.diff(score[order]) != 0, True)
    found = np.cumsum(is_positive[order])[is_last_of_ties]
    precision = found / (np.flatnonzero(is_last_of_ties) + 1)
    return float(np.sum(np.diff(found, prepend=0) * precision) / positives)


def _brier(y: NumpyArray, p: NumpyArray) -> float:
    if p.shape[1] == 2:
        return float(np.mean(np.square(p[:, 1] - y)))
    return float(np.mean(np.square(p - (y[:, None] == np.arange(p.shape[1]))).sum(1)))


def _calibration_error(y: NumpyArray, p: NumpyArray) -> float:
    confidence, is_right = p.max(1), p.argmax(1) == y
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    sums = np.bincount(bins, confidence - is_right, CALIBRATION_BINS)
    return float(np.abs(sums).sum() / len(y))


def _mae(y: NumpyArray, p: NumpyArray) -> float:
    return float(np.mean(np.abs(p - y)))


def _rmse(y: NumpyArray, p: NumpyArray) -> float:
    return float(np.sqrt(np.mean(np.square(p - y))))


def _r2(y: NumpyArray, p: NumpyArray) -> float:
    if len(y) < 2:
        return float("nan")
    error, spread = float(np.sum(np.square(p - y))), float(np.sum(np.square(y - y.mean())))
    return 1 - error / spread if spread else float(error == 0)


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "classes", "higher", _accuracy, "share of right classes"),
        Metric(
            "balanced_accuracy", "classes", "higher", _balanced_accuracy,
            "mean over the classes of the share of right ones",
        ),
        Metric("f1", "classes", "higher", _f1, "F1 of the second of two classes, else their mean"),
        Metric(
            "auc", "classes", "higher", _auc, "area under the ROC curve; one class against the rest"
        ),
        Metric(
            "average_precision", "classes", "higher", _average_precision,
            "area under the precision-recall curve; one class against the rest",
        ),
        Metric("brier", "classes", "lower", _brier, "mean squared error of the probabilities"),
        Metric(
            "calibration_error", "classes", "lower", _calibration_error,
            "mean difference of confidence and accuracy, in ten bins of the confidence",
        ),
        Metric("mae", "numbers", "lower", _mae, "mean absolute error"),
        Metric("rmse", "numbers", "lower", _rmse, "root of the mean squared error"),
        Metric("r2", "numbers", "higher", _r2, "share of the variance that is explained"),
    )
}  # fmt: skip
"""All metrics by name."""


def probabilities(task: Task, outputs: NumpyArray) -> NumpyArray:
    """Return the probabilities (n, C) that the outputs of a classifier stand for."""
    outputs = outputs.astype(np.float64)
    if task == BINARY:
        second = 1 / (1 + np.exp(-outputs[:, 0]))
        return np.stack([1 - second, second], axis=1)
    exponents = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return np.asarray(exponents / exponents.sum(axis=1, keepdims=True))


class Interval(NamedTuple):
    """A bootstrap interval of a metric."""

    low: float
    high: float


def bootstrap_interval(
    metric: Metric, y: NumpyArray, predictions: NumpyArray, *, resamples: int, seed: int,
    level: float = 0.95,
) -> Interval:  # fmt: skip
    """Return the percentile interval of a metric over samples drawn with replacement.

    Args:
        metric: The metric.
        y: Labels (n,).
        predictions: Probabilities (n, C) or numbers (n,).
        resamples: How often n samples are drawn.
        seed: Seed of the draws.
        level: The share of the resamples' values that the interval covers.

    Returns:
        The interval; NaN if the metric is not defined for any resample.
    """
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, len(y), (resamples, len(y)))
    values = np.array([metric.compute(y[r], predictions[r]) for r in rows])
    values = values[np.isfinite(values)]
    if not len(values):
        return Interval(float("nan"), float("nan"))
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(float(low), float(high))
