"""The workloads that every contender of ``simulation.py`` runs; this module needs only NumPy.

In a round, ``active`` of the ``parties`` start from the global model and take ``steps`` SGD steps (or
``epochs`` passes) on minibatches of ``batch`` rows. The mean of their models is the next global model.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Workload:
    """A federation and the work of a round; of ``steps`` and ``epochs`` one is set, the other None."""

    name: str
    parties: int
    active: int
    samples: tuple[int, int]  # fewest and most rows of a party
    batch: int
    eta: float
    steps: int | None = None
    epochs: int | None = None
    model: str = (
        "logistic"  # logistic: 784 → 10 with bias; lstm: two layers of 256, dense → 1 logit
    )
    shape: tuple[int, ...] = (784,)
    classes: int = 10


WORKLOADS = {
    w.name: w
    for w in (
        Workload("A10", 10, 10, (1200, 1200), 20, 0.02, steps=20),
        Workload("A50", 50, 10, (1200, 1200), 20, 0.02, steps=20),
        Workload("A1000", 1000, 1000, (60, 60), 20, 0.02, steps=20),  # Only for a GPU.
        Workload("B", 1000, 10, (40, 80), 10, 0.02, epochs=1),
        Workload(
            "C", 100, 10, (50, 50), 10, 0.1, steps=10, model="lstm", shape=(25, 300), classes=2
        ),
    )
}
HIDDEN = 256  # units of each LSTM layer


def sizes(work, seed=0):
    """Return the number of rows of each party, of shape (parties,)."""
    low, high = work.samples
    return np.random.default_rng((seed, 1)).integers(low, high + 1, work.parties)


def party(work, k, seed=0):
    """Return the rows of party k.

    Returns:
        x, float32 of shape (n, *shape), and y of shape (n,): int64 classes, or float32 for a logit.
    """
    n = int(sizes(work, seed)[k])
    rng = np.random.default_rng((seed, 2, k))
    truth = np.random.default_rng((seed, 3))
    x = rng.standard_normal((n, *work.shape), dtype=np.float32)
    if work.model == "logistic":
        teacher = truth.standard_normal((*work.shape, work.classes), dtype=np.float32)
        scores = x @ (3 * teacher / np.sqrt(np.float32(work.shape[0])))
        return x, (scores + rng.gumbel(size=scores.shape)).argmax(1)
    y = rng.integers(0, 2, n)
    towards = truth.standard_normal(work.shape[-1], dtype=np.float32)
    x *= np.float32(0.4)
    x += np.float32(0.05) * (2 * y - 1).astype(np.float32)[:, None, None] * towards
    return x, y.astype(np.float32)


def federation(work, seed=0):
    """Return (x, y) of each party; all x are parts of one array, so that its memory can be freed."""
    counts = sizes(work, seed)
    ends = np.cumsum(counts)
    x = np.empty((ends[-1], *work.shape), np.float32)
    found = []
    for k, (begin, end) in enumerate(zip(ends - counts, ends, strict=True)):
        x[begin:end], y = party(work, k, seed)
        found.append((x[begin:end], y))
    return found


def check_rows(data, at_most=100, parties=10):
    """Return check rows (x, y) of some parties: the loss on them shows whether a model has trained."""
    return tuple(np.concatenate([rows[i][:at_most] for rows in data[:parties]]) for i in (0, 1))


def draw(work, n, rng):
    """Return the indices of the rows that a party uses in a round, minibatch after minibatch.

    Each pass over the party's rows is a new permutation. The last minibatch of a round may be short.
    """
    needed = work.steps * work.batch if work.steps else work.epochs * n
    passes = [rng.permutation(n) for _ in range(-(-needed // n))]
    return (passes[0] if len(passes) == 1 else np.concatenate(passes))[:needed]


METHODS = {  # Settings that all contenders use for a method, so that they do the same work.
    "fedavg": {},
    "scaffold": {},
    "ditto": {"lam": 0.1},  # Both the global and the personal model take the steps of the round.
    "apfl": {"alpha": 0.25},  # Each minibatch trains both models; α is fixed, or starts here.
    "pfedme": {"lam": 15.0, "beta": 1.0, "inner": 1},  # ``inner`` steps per minibatch
}
