"""A Flower app: see server.py and client.py."""

import numpy as np

import fedplus as fp

FEATURES, STEPS, ETA = 3, 4, 0.1
METHOD = fp.presets.fedgeomed_plus(eta=ETA, sigma=0.5)


def samples(k):
    """What party k holds."""
    rng = np.random.default_rng(k)
    x = rng.normal(size=(20, FEATURES)).astype(np.float32)
    truth = np.array([1.0, -2.0, 0.5], np.float32)
    return x, x @ truth * (-1 if k == 1 else 1)


def zeros():
    """The first model."""
    return {"weight": np.zeros(FEATURES, np.float32)}


def step(w, x, y):
    """A gradient step over all samples."""
    return {"weight": w["weight"] - ETA * (x @ w["weight"] - y) @ x / len(x)}
