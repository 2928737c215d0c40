"""The work that every contender of ``simulation.py`` does, as data; NumPy alone, for all to read.

A round: ``active`` of the ``parties`` take the global model, each does ``steps`` SGD steps (or
``epochs`` passes) on minibatches of ``batch`` rows, and the mean of their models is the next one.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Workload:
    """One federation and one round's work; ``steps`` or ``epochs`` is set, the other is None."""

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
        Workload("A1000", 1000, 1000, (60, 60), 20, 0.02, steps=20),  # For a GPU.
        Workload("B", 1000, 10, (40, 80), 10, 0.02, epochs=1),
        Workload(
            "C", 100, 10, (50, 50), 10, 0.1, steps=10, model="lstm", shape=(25, 300), classes=2
        ),
    )
}
HIDDEN = 256  # of each of the lstm's layers


def sizes(work, seed=0):
    """Rows of each party, (parties,)."""
    low, high = work.samples
    return np.random.default_rng((seed, 1)).integers(low, high + 1, work.parties)


def party(work, k, seed=0):
    """Party k's rows: x float32 (n, *shape); y int64 (n,) for classes, float32 (n,) for a logit."""
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
    """All parties' rows, in one piece: memory that comes back when nobody has them any more."""
    counts = sizes(work, seed)
    ends = np.cumsum(counts)
    x = np.empty((ends[-1], *work.shape), np.float32)
    found = []
    for k, (begin, end) in enumerate(zip(ends - counts, ends, strict=True)):
        x[begin:end], y = party(work, k, seed)
        found.append((x[begin:end], y))
    return found


def check_rows(data, at_most=100, parties=10):
    """Some rows of some parties in one (x, y), on which a global model's loss shows that it trained."""
    return tuple(np.concatenate([rows[i][:at_most] for rows in data[:parties]]) for i in (0, 1))


def draw(work, n, rng):
    """One party's rows for one round, in the order of use: ``batch`` after ``batch`` of them.

    Each pass over the party is a new permutation; the last minibatch of a round may be short.
    """
    wanted = work.steps * work.batch if work.steps else work.epochs * n
    passes = [rng.permutation(n) for _ in range(-(-wanted // n))]
    return (passes[0] if len(passes) == 1 else np.concatenate(passes))[:wanted]


METHODS = {  # What a round of each takes beside the workload, for like to be compared with like.
    "fedavg": {},
    "scaffold": {},
    "ditto": {"lam": 0.1},  # the round's steps once for the global, once for the personal model
    "apfl": {"alpha": 0.25},  # each step: both models on the same minibatch; α fixed or from here
    "pfedme": {"lam": 15.0, "beta": 1.0, "inner": 1},  # inner steps a minibatch
}
