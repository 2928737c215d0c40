"""The parties' tasks: a linear regression, the same with a private layer, or handwritten digits."""

import functools

import numpy as np

import fedplus as fp

FEATURES, STEPS, CLASSES = 3, 4, 10


def make_method(name, task):
    """Return a method by its name in the run configuration."""
    settings = {
        "fedavg": {},
        "fedper": {"layout": fp.models.ravel(task.initial_model()).layout},
        "fedgeomed_plus": {"sigma": task.sigma, "delta": 0.1},
        "fedcomed_plus": {"sigma": task.sigma, "delta": 0.01},
    }
    return getattr(fp.presets, name)(eta=task.eta, **settings[name])


class Regression:
    """Linear regression with three weights; the labels of party 1 have the opposite sign."""

    eta, sigma = 0.1, 0.5

    def __init__(self, k, parties):
        rng = np.random.default_rng(k)
        self.x = rng.normal(size=(20, FEATURES)).astype(np.float32)
        truth = np.array([1.0, -2.0, 0.5], np.float32)
        self.y = self.x @ truth * (-1 if k == 1 else 1)

    @staticmethod
    def initial_model():
        return {"weight": np.zeros(FEATURES, np.float32)}

    def step(self, w):
        """Return the model after a gradient step over all samples."""
        return {"weight": w["weight"] - self.eta * (self.x @ w["weight"] - self.y) @ self.x / 20}

    def scores(self, w, global_model):
        return {}


class Personal(Regression):
    """The regression, and a large layer ``head`` that each party moves to numbers of its own."""

    entries = 50_000

    def __init__(self, k, parties):
        super().__init__(k, parties)
        self.own = np.random.default_rng(100 + k).normal(size=self.entries).astype(np.float32)

    @classmethod
    def initial_model(cls):
        head = np.random.default_rng(99).normal(size=cls.entries).astype(np.float32)
        return {"head/weight": head, "weight": np.zeros(FEATURES, np.float32)}

    def step(self, w):
        head = w["head/weight"]
        return super().step(w) | {"head/weight": head + self.eta * (self.own - head)}


@functools.cache
def load_samples():
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


class Digits:
    """Softmax regression on 8 × 8 pixels; a quarter of a party's samples is for testing."""

    eta, sigma = 0.5, 0.2

    def __init__(self, k, parties):
        x, y = load_samples()
        rows = np.random.default_rng(0).permutation(len(x))[k::parties]
        x, y = (x[rows] / 16).astype(np.float32), y[rows]
        self.x, self.y = x[len(x) // 4 :], np.eye(CLASSES, dtype=np.float32)[y[len(x) // 4 :]]
        self.test = x[: len(x) // 4], y[: len(x) // 4]

    @staticmethod
    def initial_model():
        return {
            "bias": np.zeros(CLASSES, np.float32), "weight": np.zeros((64, CLASSES), np.float32),
        }  # fmt: skip

    def step(self, w):
        logits = self.x @ w["weight"] + w["bias"]
        exponentials = np.exp(logits - logits.max(1, keepdims=True))
        error = exponentials / exponentials.sum(1, keepdims=True) - self.y
        return {
            "bias": w["bias"] - self.eta * error.mean(0),
            "weight": w["weight"] - self.eta * self.x.T @ error / len(error),
        }

    def scores(self, w, global_model):
        def accuracy(w):
            x, y = self.test
            return float(np.mean(np.argmax(x @ w["weight"] + w["bias"], 1) == y))

        return {"personal-score": accuracy(w), "global-score": accuracy(global_model)}


TASKS = {"regression": Regression, "personal": Personal, "digits": Digits}
