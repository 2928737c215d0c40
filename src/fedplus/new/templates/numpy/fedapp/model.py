"""The model, a party's training steps, and the evaluation: softmax regression with NumPy.

For estimators of scikit-learn, use ``fedplus.sklearn.Pull`` with ``partial_fit``.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from fedplus.flower import Party

from fedapp.data import CLASSES, FEATURES

BATCH = 20


def initial_model() -> dict[str, Any]:
    """Return the model with which the federation starts: arrays by name, all of them federated."""
    return {
        "weight": np.zeros((FEATURES, CLASSES), np.float32),
        "bias": np.zeros(CLASSES, np.float32),
    }


def probabilities(w: Any, x: Any) -> Any:
    """Return the probability of each class, one row per sample."""
    logits = x @ w["weight"] + w["bias"]
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)


def gradient_step(w: Any, x: Any, y: Any, eta: float) -> Any:
    """Return the model after a gradient step on the mean cross-entropy."""
    error = (probabilities(w, x) - np.eye(CLASSES, dtype=np.float32)[y]) / len(y)
    return {"weight": w["weight"] - eta * x.T @ error, "bias": w["bias"] - eta * error.sum(0)}


def train_model(party: Party, x: Any, y: Any, steps: Iterable[int], rng: Any) -> tuple[Any, Any]:
    """Do the party's steps; return its new model, and extra arrays that stay with the party."""
    w = party.start
    for _ in steps:
        rows = rng.choice(len(y), BATCH)
        w = party.pull(gradient_step(w, x[rows], y[rows], party.eta))
    return w, {}


def evaluate(w: Any, extra: Any, x: Any, y: Any) -> tuple[float, float]:
    """Return the accuracy and the loss of a model."""
    p = probabilities(w, x)
    loss = -np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean()
    return float((p.argmax(1) == y).mean()), float(loss)
