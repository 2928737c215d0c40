"""Metrics equal scikit-learn's; bootstrap intervals cover what they should."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn

from fedplus.models.metrics import METRICS, bootstrap_interval

seeds = st.integers(0, 2**32 - 1)


def sample(seed, classes):
    """Return labels and probabilities, some of them equal, so that there are ties."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    y = rng.integers(0, classes, n)
    y[:classes] = np.arange(classes)[:n]  # All classes, if there are enough samples.
    logits = rng.normal(size=(n, classes)).round(1) + (y[:, None] == np.arange(classes))
    p = np.exp(logits)
    return y, p / p.sum(1, keepdims=True)


def one_vs_rest(function, y, p):
    return np.mean([function(y == c, p[:, c]) for c in np.unique(y)])


REFERENCES = {
    "accuracy": lambda y, p: sklearn.accuracy_score(y, p.argmax(1)),
    "balanced_accuracy": lambda y, p: sklearn.balanced_accuracy_score(y, p.argmax(1)),
    "f1": lambda y, p: sklearn.f1_score(
        y, p.argmax(1), average="binary" if p.shape[1] == 2 else "macro", zero_division=0
    ),
    "auc": lambda y, p: (
        sklearn.roc_auc_score(y, p[:, 1])
        if p.shape[1] == 2
        else one_vs_rest(sklearn.roc_auc_score, y, p)
    ),
    "average_precision": lambda y, p: (
        sklearn.average_precision_score(y, p[:, 1])
        if p.shape[1] == 2
        else one_vs_rest(sklearn.average_precision_score, y, p)
    ),
    "brier": lambda y, p: sklearn.brier_score_loss(
        y, p[:, 1] if p.shape[1] == 2 else p, labels=np.arange(p.shape[1])
    ),
}


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("name", REFERENCES)
@given(seed=seeds)
def test_metrics_of_classes_equal_those_of_scikit_learn(name, classes, seed):
    y, p = sample(seed, classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of absent classes.
        expected = REFERENCES[name](y, p) if len(np.unique(y)) > 1 else None
    if expected is not None:
        assert METRICS[name].compute(y, p) == pytest.approx(expected, abs=1e-9)


@given(seed=seeds)
def test_metrics_of_numbers_equal_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=int(rng.integers(2, 50))) * 10.0 ** rng.integers(-3, 4)
    p = y + rng.normal(size=len(y))
    assert METRICS["mae"].compute(y, p) == pytest.approx(
        sklearn.mean_absolute_error(y, p), rel=1e-6
    )
    rmse = sklearn.root_mean_squared_error(y, p)
    assert METRICS["rmse"].compute(y, p) == pytest.approx(rmse, rel=1e-6)
    assert METRICS["r2"].compute(y, p) == pytest.approx(sklearn.r2_score(y, p), rel=1e-6)


def test_metrics_that_are_not_defined_are_nan():
    y, p = np.zeros(5, int), np.tile([0.7, 0.3], (5, 1))
    assert np.isnan(METRICS["auc"].compute(y, p))
    assert np.isnan(METRICS["average_precision"].compute(y, p))
    assert np.isnan(METRICS["r2"].compute(np.ones(1), np.ones(1)))
    assert METRICS["r2"].compute(np.ones(3), np.ones(3)) == sklearn.r2_score(np.ones(3), np.ones(3))
    interval = bootstrap_interval(METRICS["auc"], y, p, resamples=20, seed=0)
    assert np.isnan(interval).all()


def test_the_calibration_error_is_the_mean_gap_of_confidence_and_accuracy():
    """Ten samples with confidence 0.8 of which 6 are right, and ten with 0.55 of which 7 are."""
    y = np.array([0] * 6 + [1] * 4 + [0] * 7 + [1] * 3)
    first = np.array([0.8] * 10 + [0.55] * 10)
    p = np.stack([first, 1 - first], axis=1)
    expected = 0.5 * abs(0.8 - 0.6) + 0.5 * abs(0.55 - 0.7)
    assert METRICS["calibration_error"].compute(y, p) == pytest.approx(expected)


def test_a_bootstrap_interval_covers_the_true_mean_error_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(300):
        errors = np.abs(rng.normal(size=60))
        low, high = bootstrap_interval(
            METRICS["mae"], np.zeros(60), errors, resamples=300, seed=seed
        )
        assert low <= errors.mean() <= high
        covered += low <= np.sqrt(2 / np.pi) <= high
    assert 0.9 <= covered / 300 <= 0.98


def test_an_interval_depends_on_the_seed_alone():
    y, p = sample(3, 2)
    first, second, other = (
        bootstrap_interval(METRICS["auc"], y, p, resamples=50, seed=s) for s in (1, 1, 2)
    )
    assert first == second != other
