"""What the parties train: a small regression, or handwritten digits."""

import functools

import numpy as np

import fedplus as fp

FEATURES, STEPS, CLASSES = 3, 4, 10


def method(name, task):
    """By its name in the run's configuration."""
    settings = {
        "fedavg": {},
        "fedgeomed_plus": {"sigma": task.sigma, "delta": 0.1},
        "fedcomed_plus": {"sigma": task.sigma, "delta": 0.01},
    }
    return getattr(fp.presets, name)(eta=task.eta, **settings[name])


class Regression:
    """Three weights; party 1 is unlike the others."""

    eta, sigma = 0.1, 0.5

    def __init__(self, k, parties):
        rng = np.random.default_rng(k)
        self.x = rng.normal(size=(20, FEATURES)).astype(np.float32)
        truth = np.array([1.0, -2.0, 0.5], np.float32)
        self.y = self.x @ truth * (-1 if k == 1 else 1)

    @staticmethod
    def first():
        return {"weight": np.zeros(FEATURES, np.float32)}

    def step(self, w):
        """A gradient step over all samples."""
        return {"weight": w["weight"] - self.eta * (self.x @ w["weight"] - self.y) @ self.x / 20}

    def scores(self, w, received):
        return {}


@functools.cache
def digits():
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


class Digits:
    """A softmax over 8 × 8 pixels; every fourth sample of a party is kept for testing."""

    eta, sigma = 0.5, 0.2

    def __init__(self, k, parties):
        x, y = digits()
        mine = np.random.default_rng(0).permutation(len(x))[k::parties]
        x, y = (x[mine] / 16).astype(np.float32), y[mine]
        self.x, self.y = x[len(x) // 4 :], np.eye(CLASSES, dtype=np.float32)[y[len(x) // 4 :]]
        self.test = x[: len(x) // 4], y[: len(x) // 4]

    @staticmethod
    def first():
        return {
            "bias": np.zeros(CLASSES, np.float32), "weight": np.zeros((64, CLASSES), np.float32),
        }  # fmt: skip

    def step(self, w):
        logits = self.x @ w["weight"] + w["bias"]
        share = np.exp(logits - logits.max(1, keepdims=True))
        error = share / share.sum(1, keepdims=True) - self.y
        return {
            "bias": w["bias"] - self.eta * error.mean(0),
            "weight": w["weight"] - self.eta * self.x.T @ error / len(error),
        }

    def scores(self, w, received):
        def accuracy(w):
            x, y = self.test
            return float(np.mean(np.argmax(x @ w["weight"] + w["bias"], 1) == y))

        return {"personal-score": accuracy(w), "global-score": accuracy(received)}


TASKS = {"regression": Regression, "digits": Digits}
