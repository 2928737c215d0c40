"""The model, a party's steps, and how a model is judged: NumPy alone, a softmax regression.

For scikit-learn's estimators ``fedplus.sklearn`` has ``Pull`` around ``partial_fit``.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from fedplus.flower import Party

from fedapp.data import CLASSES, FEATURES
from fedapp.method import ETA

BATCH = 20


def first() -> dict[str, Any]:
    """The model that the federation begins with: arrays by name, all of them federated."""
    return {
        "weight": np.zeros((FEATURES, CLASSES), np.float32),
        "bias": np.zeros(CLASSES, np.float32),
    }


def probabilities(w: Any, x: Any) -> Any:
    """Of each class, a row a sample."""
    logits = x @ w["weight"] + w["bias"]
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def descended(w: Any, x: Any, y: Any) -> Any:
    """A step down the gradient of the mean cross-entropy."""
    error = (probabilities(w, x) - np.eye(CLASSES, dtype=np.float32)[y]) / len(y)
    return {"weight": w["weight"] - ETA * x.T @ error, "bias": w["bias"] - ETA * error.sum(0)}


def trained(party: Party, x: Any, y: Any, work: Iterable[int], rng: Any) -> tuple[Any, Any]:
    """The party's steps: its new model, and what else it keeps."""
    w = party.start
    for _ in work:
        rows = rng.choice(len(y), BATCH)
        w = party.pull(descended(w, x[rows], y[rows]))
    return w, {}


def judged(w: Any, kept: Any, x: Any, y: Any) -> tuple[float, float]:
    """Accuracy and loss."""
    shares = probabilities(w, x)
    loss = -np.log(np.maximum(shares[np.arange(len(y)), y], 1e-12)).mean()
    return float((shares.argmax(1) == y).mean()), float(loss)
