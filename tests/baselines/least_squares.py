"""A small federation of least-squares problems, and the input of a round for it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import fedplus as fp
from fedplus.local import ParameterGradient

N, D, E, B = 5, 4, 6, 3


@functools.partial(jax.jit, static_argnames="each")
def run_round(method, state, work, each=jax.vmap):
    """Run one compiled round; other settings or minibatches do not compile it again."""
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
    """The samples of all parties: party k has 40 samples y = x·w_k, with its own w_k and inputs x."""

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
        """Return random minibatches x (K, E, B, D) and y (K, E, B)."""
        rows = rng.integers(0, 40, size=(len(cohort), steps, B))
        if alike:
            rows[:] = rows[0]
        xs = np.stack([self.x[k][r] for k, r in zip(cohort, rows, strict=True)])
        ys = np.stack([self.y[k][r] for k, r in zip(cohort, rows, strict=True)])
        return xs, ys

    def full(self, steps):
        """Return minibatches that each contain all samples of the party."""
        xs = np.stack([np.tile(x, (steps, 1, 1)) for x in self.x])
        ys = np.stack([np.tile(y, (steps, 1)) for y in self.y])
        return xs, ys

    def hessians(self):
        """Return all H_k and g_k of f_k(w) = ½ wᵀH_k w − g_k·w + constant."""
        return [x.T @ x / 40 for x in self.x], [
            x.T @ y / 40 for x, y in zip(self.x, self.y, strict=True)
        ]

    def optimum(self):
        """Return the minimiser of the mean of all f_k."""
        hs, gs = self.hessians()
        return np.linalg.solve(sum(hs), sum(gs))


def work(parties, rng, cohort, steps=None, alike=False, key=0, **more):
    """Return the work of a round, its minibatches and its numbers of steps."""
    batches = parties.batches(rng, cohort, alike=alike)
    held = parties.batches(rng, cohort, steps=1, alike=alike)
    steps = np.full(len(cohort), E) if steps is None else np.asarray(steps)
    held = tuple(part[:, 0] for part in held)
    key = jax.random.key(key)
    given = fp.Work(np.asarray(cohort), batches, steps, key=key, validation=held, **more)
    return given, batches, steps
