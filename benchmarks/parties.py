"""Compare training all parties in parallel (vmap) with a loop over parties, for several models.

python benchmarks/parties.py              # prints the milliseconds per step
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from fedplus.models import cnn, linear, logistic, lstm, mlp, ravel

MODELS = {
    "linear 100": (linear(100), (100,)),
    "logistic 60→10": (logistic(60, 10), (60,)),
    "logistic 784→10": (logistic(784, 10), (784,)),
    "mlp 784→200→10": (mlp(784, 10), (784,)),
    "cnn 28×28": (cnn(), (28, 28, 1)),
    "lstm 2×256": (lstm(), (25, 300)),
}


def make_training(model, shape, over_parties, parties, batch, steps):
    """Return a function that trains each party for some steps from the same start."""
    flat = ravel(model.init(jax.random.key(0)))
    x = jax.random.normal(jax.random.key(1), (parties, batch, *shape))
    y = jnp.zeros((parties, batch), jnp.int32)

    def loss(w, x, y):
        return jnp.mean(model.task.loss(model.apply(flat.unravel(w), x), y))

    def party(arguments):
        w, x, y = arguments
        return jax.lax.fori_loop(0, steps, lambda _, w: w - 0.01 * jax.grad(loss)(w, x, y), w)

    over = jax.vmap(party) if over_parties == "vmap" else lambda a: jax.lax.map(party, a)
    compiled = jax.jit(over)
    w = jnp.tile(flat.w, (parties, 1))
    return lambda: jax.block_until_ready(compiled((w, x, y)))


def main():
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    for name, (model, shape) in MODELS.items():
        steps = 100 if model.name in ("linear", "logistic") else 5
        ways = {
            way: make_training(model, shape, way, options.parties, options.batch, steps)
            for way in ("vmap", "loop")
        }
        times = {way: [] for way in ways}
        for repeat in range(options.repeats + 1):  # The first call compiles and is not counted.
            for way, call in ways.items():
                start, cpu = time.perf_counter(), time.process_time()
                call()
                spent = time.perf_counter() - start, time.process_time() - cpu
                times[way] += [spent] if repeat else []
        shown = [
            f"{way} {1e3 * np.median(wall) / steps:8.3f} wall {1e3 * min(cpu) / steps:8.3f} cpu"
            for way, (wall, cpu) in (
                (way, zip(*found, strict=True)) for way, found in times.items()
            )
        ]
        print(f"{name:18s}", "   ".join(shown), flush=True)


if __name__ == "__main__":
    main()
