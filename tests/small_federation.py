"""A small federation and a linear classifier, for tests of the simulation."""

import jax
import jax.numpy as jnp
import numpy as np

import fedplus as fp
from fedplus.models import Model, Task


def apply(params, x):
    return x @ params["weight"] + params["bias"]


def init(key):
    return {"bias": jnp.zeros(3), "weight": 0.1 * jax.random.normal(key, (4, 3))}


CLASSIFIER = Model(init, apply, name="classifier")


def federation(sizes=(30, 7, 45, 12, 20), seed=0, features=4, classes=3):
    """Return parties with the same linear labelling rule, whose inputs lie around different centres."""
    rng = np.random.default_rng(seed)
    rule = rng.normal(size=(features, classes))
    parties = []
    for n in sizes:
        x = rng.normal(size=(n, features)) + rng.normal(size=features)
        parties.append((x, (x @ rule).argmax(1)))
    return fp.Federation.from_arrays(parties, test_share=0.2, name="small")


def plain_loss(params, x, y):
    """Return the cross-entropy of each sample and the gradient of their mean, in plain NumPy."""
    z = x @ params["weight"] + params["bias"]
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    losses = -np.log(p[np.arange(len(y)), y])
    p[np.arange(len(y)), y] -= 1
    return losses, {"bias": p.mean(0), "weight": x.T @ p / len(y)}


__all__ = ["CLASSIFIER", "Task", "federation", "plain_loss"]
