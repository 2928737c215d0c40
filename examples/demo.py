"""What Fed+ is for, in under two minutes: ten parties, one of them unlike the rest.

Handwritten digits (scikit-learn carries them) are split evenly over ten parties; the last one holds
photographic negatives. Each method trains a logistic regression from the same start on the same
minibatches, and is judged by the accuracy of each party's own model on that party's own test images.

    make demo
    .venv/bin/python examples/demo.py --validation    # σ and δ were chosen by its first column
"""

import sys
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

import fedplus as fp
from fedplus import presets

PARTIES, ROUNDS, STEPS, BATCH, SEEDS = 10, 150, 20, 20, 5
ETA, SIGMA = 0.02, 0.5  # κ = 1/(1 + ησ) = 0.99
METHODS = {
    "local SGD": presets.local_sgd(eta=ETA),
    "FedAvg": presets.fedavg(eta=ETA),
    "FedProx": presets.fedprox(eta=ETA, sigma=SIGMA),
    "RFA": presets.rfa(eta=ETA),
    "coordinate median": presets.coordinate_median(eta=ETA),
    "FedAvg+": presets.fedavg_plus(eta=ETA, sigma=SIGMA, delta=0.1),
    "FedGeoMed+": presets.fedgeomed_plus(eta=ETA, sigma=SIGMA, delta=0.3),
    "FedCoMed+": presets.fedcomed_plus(eta=ETA, sigma=SIGMA, delta=0.03),
}


def federation(seed: int) -> tuple[Any, Any]:
    """Train and test images and labels, each (parties, samples, ...): 50% and 50%, as in the paper."""
    digits = load_digits()
    x = (digits.data - digits.data.mean()) / digits.data.std()
    size = len(x) // PARTIES
    order = np.random.default_rng(seed).permutation(len(x))[: size * PARTIES].reshape(PARTIES, size)
    images, labels = x[order].astype(np.float32), digits.target[order]
    images[-1] = -images[-1]  # the party unlike the rest
    half = size // 2
    return (images[:, :half], labels[:, :half]), (images[:, half:], labels[:, half:])


flat = fp.models.ravel({"bias": np.zeros(10, np.float32), "weight": np.zeros((64, 10), np.float32)})


def scores(w: jax.Array, images: jax.Array) -> jax.Array:
    model = flat.unravel(w)
    found: jax.Array = images @ model["weight"] + model["bias"]
    return found


@jax.grad
def gradient(w: jax.Array, batch: tuple[jax.Array, jax.Array]) -> jax.Array:
    images, labels = batch
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores(w, images)), labels[:, None], axis=1)
    return -jnp.mean(chosen)


@partial(jax.jit, static_argnames="rounds")
def accuracies(method: fp.FedPlus, train: Any, test: Any, key: jax.Array, rounds: int) -> jax.Array:
    """Train; the test accuracy of each party's model."""

    def one_round(state: fp.State, key: jax.Array) -> tuple[fp.State, None]:
        rows = jax.random.randint(key, (PARTIES, STEPS, BATCH), 0, train[1].shape[1])
        batches = jax.vmap(lambda data, i: jax.tree.map(lambda a: a[i], data))(train, rows)
        work = fp.Work(jnp.arange(PARTIES), batches, jnp.full(PARTIES, STEPS))
        return method.round(state, work, gradient)[0], None

    state, _ = jax.lax.scan(one_round, method.init(flat.w, PARTIES), jax.random.split(key, rounds))
    predicted = jax.vmap(scores)(method.models(state), test[0]).argmax(-1)
    return jnp.mean(predicted == test[1], axis=1)


PLUS = {
    "FedAvg+": presets.fedavg_plus,
    "FedGeoMed+": presets.fedgeomed_plus,
    "FedCoMed+": presets.fedcomed_plus,
}
CANDIDATES = {
    f"{name} σ={sigma:g} δ={delta:g}": make(eta=ETA, sigma=sigma, delta=delta)
    for name, make in PLUS.items()
    for sigma in (0.5, 5.0)
    for delta in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
}


def main(validation: bool) -> None:
    splits = [federation(seed) for seed in range(SEEDS)]
    train, test = jax.tree.map(lambda *parts: jnp.stack(parts), *splits)
    if validation:  # Judge by a fifth of the training images; the test images play no part.
        held = train[1].shape[2] // 5
        test = jax.tree.map(lambda a: a[:, :, -held:], train)
        train = jax.tree.map(lambda a: a[:, :, :-held], train)
    keys = jax.random.split(jax.random.key(0), SEEDS)
    several = jax.vmap(partial(accuracies, rounds=ROUNDS), in_axes=(None, 0, 0, 0))
    judged = "Validation" if validation else "Test"
    table = Table(
        title=f"{judged} accuracy of each party's own model, %\n"
        f"{PARTIES} parties, the last one holds negatives; {ROUNDS} rounds of {STEPS} steps; "
        f"mean ± s.d. over {SEEDS} seeds",
    )
    for column in ("method", "mean of all", "worst party", "the nine", "the negatives"):
        table.add_column(column, justify="left" if column == "method" else "right")
    begun = time.perf_counter()
    methods = CANDIDATES if validation else METHODS
    for name, method in methods.items():
        found = 100 * np.asarray(several(method, train, test, keys))
        columns = [found.mean(1), found.min(1), found[:, :-1].mean(1), found[:, -1]]
        table.add_row(name, *(f"{c.mean():.1f} ± {c.std():.1f}" for c in columns))
    console = Console()
    console.print(table)
    console.print(f"{len(methods)} methods × {SEEDS} seeds in {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main(validation="--validation" in sys.argv[1:])
