"""A small federation of least-squares problems, with minibatches that tests can hand to both sides."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import fedplus as fp
from fedplus.local import ParameterGradient

N, D, E, B = 5, 4, 6, 3


@functools.partial(jax.jit, static_argnames="each")
def one_round(method, state, work, each=jax.vmap):
    """Compiled once for each method; another setting or other minibatches compile nothing."""
    return method.round(state, work, GRAD, each)


def loss(w, batch):
    x, y = batch
    return 0.5 * jnp.mean((x @ w - y) ** 2)


GRAD = ParameterGradient(jax.grad(loss), lambda w: w, loss)


def plain_loss(w, batch):
    x, y = batch
    return 0.5 * np.mean((x @ w - y) ** 2)


def plain_grad(w, batch):
    x, y = batch
    return x.T @ (x @ w - y) / len(y)


class Parties:
    """Party k: y = x·w_k with its own w_k and its own inputs, 40 samples."""

    def __init__(self, n=N, seed=0, alike=False, spread=1.0):
        rng = np.random.default_rng(seed)
        shared = rng.normal(size=D)
        self.x, self.y = [], []
        for _ in range(n):
            x = rng.normal(size=(40, D)) * rng.uniform(0.5, 1.5, D)
            self.x.append(x)
            self.y.append(x @ (shared + spread * rng.normal(size=D)))
        if alike:
            self.x, self.y = [self.x[0]] * n, [self.y[0]] * n
        self.n = n

    def batches(self, rng, cohort, steps=E, alike=False):
        """(K, E, B, D) and (K, E, B)."""
        rows = rng.integers(0, 40, size=(len(cohort), steps, B))
        if alike:
            rows[:] = rows[0]
        xs = np.stack([self.x[k][r] for k, r in zip(cohort, rows, strict=True)])
        ys = np.stack([self.y[k][r] for k, r in zip(cohort, rows, strict=True)])
        return xs, ys

    def full(self, steps):
        """Every minibatch is all of a party's samples."""
        xs = np.stack([np.tile(x, (steps, 1, 1)) for x in self.x])
        ys = np.stack([np.tile(y, (steps, 1)) for y in self.y])
        return xs, ys

    def hessians(self):
        """f_k(w) = ½ wᵀH_k w − g_k·w + constant."""
        return [x.T @ x / 40 for x in self.x], [
            x.T @ y / 40 for x, y in zip(self.x, self.y, strict=True)
        ]

    def optimum(self):
        """The minimiser of the mean of all f_k."""
        hs, gs = self.hessians()
        return np.linalg.solve(sum(hs), sum(gs))


def work(parties, rng, cohort, steps=None, alike=False, key=0, **more):
    """A round's work, and its minibatches for the plain side."""
    batches = parties.batches(rng, cohort, alike=alike)
    held = parties.batches(rng, cohort, steps=1, alike=alike)
    steps = np.full(len(cohort), E) if steps is None else np.asarray(steps)
    made = fp.Work(
        np.asarray(cohort), batches, steps, key=jax.random.key(key),
        held=tuple(part[:, 0] for part in held), **more,
    )  # fmt: skip
    return made, batches, steps
