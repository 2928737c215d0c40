"""``metrics.json`` of a run folder: metrics of each party's final model on its test samples."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import lookup, require
from fedplus.experiments.round_lines import json_numbers
from fedplus.experiments.spec import Evaluation
from fedplus.models import BINARY, CLASSIFICATION, REGRESSION, Model
from fedplus.models.metrics import METRICS, Metric, bootstrap_interval, probabilities
from fedplus.models.task import Task
from fedplus.simulation import Run
from fedplus.simulation.engine import unravel_function

DEFAULT_METRICS = {
    "classes": ("balanced_accuracy", "f1", "auc", "brier"),
    "numbers": ("mae", "rmse", "r2"),
}
"""The metrics of a run unless the user chooses others."""
DEFAULT_RESAMPLES = 200
MAX_PARTIES_WITH_INTERVALS = 50
"""With more parties, intervals are computed only if the user asks for them."""


def choose_metrics(names: Sequence[str] | None, task: Task) -> list[Metric]:
    """Return the metrics of a run.

    Args:
        names: Names of metrics; None for those of the task.
        task: The task of the model.

    Raises:
        SettingError: A metric does not exist, or does not judge what the model predicts.
    """
    kind = {CLASSIFICATION: "classes", BINARY: "classes", REGRESSION: "numbers"}.get(task)
    if kind is None:
        require(not names, "evaluation.metrics", names, f"left out for the task {task.name!r}")
        return []
    metrics = [lookup(name, METRICS, "metric") for name in names or DEFAULT_METRICS[kind]]
    for metric in metrics:
        allowed = ", ".join(name for name, other in METRICS.items() if other.kind == kind)
        require(metric.kind == kind, "evaluation.metrics", metric.name, f"one of: {allowed}")
    return metrics


def party_metrics(run: Run, evaluation: Evaluation) -> dict[str, Any] | None:
    """Return the content of ``metrics.json``, or None if the task has no metrics.

    Args:
        run: The finished run.
        evaluation: The metrics and the number of resamples that the user chose, if any.
    """
    task, federation = run.model.task, run.federation
    metrics = choose_metrics(evaluation.metrics, task)
    test = federation.test
    if not metrics or test.y.ndim != 1:
        return None
    default = DEFAULT_RESAMPLES if federation.parties <= MAX_PARTIES_WITH_INTERVALS else 0
    resamples = default if evaluation.resamples is None else evaluation.resamples
    models, w_global = run.models, run.w_global
    figures: dict[str, dict[str, Any]] = {
        metric.name: {"better": metric.better, "personal": [], "low": [], "high": [], "global": []}
        for metric in metrics
    }
    for k in range(federation.parties):
        x, y = test.party(k)
        personal, common = (predictions(run.model, w, x) for w in (models[k], w_global))
        for metric in metrics:
            figure = figures[metric.name]
            figure["personal"].append(metric.compute(y, personal))
            figure["global"].append(metric.compute(y, common))
            if resamples:
                interval = bootstrap_interval(
                    metric, y, personal, resamples=resamples, seed=run.seed
                )
                figure["low"].append(interval.low)
                figure["high"].append(interval.high)
    content = {
        name: {key: v if key == "better" else json_numbers(v) for key, v in figure.items()}
        for name, figure in figures.items()
    }
    return {"resamples": resamples, "level": 0.95, "metrics": content}


def predictions(model: Model, w: NumpyArray, x: NumpyArray) -> NumpyArray:
    """Return the probabilities (n, C), or the predicted numbers (n,), of a model (d,) for n inputs."""
    rows = 1 << max(len(x) - 1, 0).bit_length()  # One program for many numbers of samples.
    padded = np.concatenate([x, np.zeros((rows - len(x), *x.shape[1:]), x.dtype)])
    outputs = np.asarray(_outputs(model, jnp.asarray(w), padded), np.float64)[: len(x)]
    if model.task == REGRESSION:
        return np.asarray(outputs.reshape(len(x)))
    return probabilities(model.task, outputs)


@partial(jax.jit, static_argnames="model")
def _outputs(model: Model, w: Any, x: Any) -> Any:
    return model.apply(unravel_function(model)(w), x)
