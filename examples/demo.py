"""What Fed+ is for, in under two minutes: ten parties, one of them unlike the rest.

Handwritten digits (scikit-learn carries them) are split evenly over ten parties; the last one holds
photographic negatives. Each method trains a logistic regression from the same start on the same
minibatches, and is judged by the accuracy of each party's own model on that party's own test images.

    make demo
    .venv/bin/python examples/demo.py --validation    # σ and δ were chosen by its first column
"""

import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import fedplus as fp
from fedplus import models, presets

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
    "FedCoMed+": presets.fedcomed_plus(eta=ETA, sigma=10 * SIGMA, delta=0.003),
}
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


def federation(seed: int, validation: bool) -> fp.Federation:
    """Half of each party's images to learn from, half to be judged on, as in the paper.

    With ``validation`` a fifth of the training images is what judges; the test images play no part.
    """
    if not validation:
        return fp.data.load("digits-robust", seed=seed, parties=PARTIES)
    held = fp.data.load("digits-robust", seed=seed, parties=PARTIES, validation_share=0.2)
    assert held.validation is not None
    return held._replace(test=held.validation)


def main(validation: bool) -> None:
    splits = [federation(seed, validation) for seed in range(SEEDS)]
    model = models.logistic(64, classes=10)
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
        runs = [
            fp.simulate(
                method, split, model, rounds=ROUNDS, steps=STEPS, batch_size=BATCH, seed=seed,
                evaluate_every=ROUNDS,
            )
            for seed, split in enumerate(splits)
        ]  # fmt: skip
        found = np.stack([100 * run.evaluations["personal_score"][-1] for run in runs])
        columns = [found.mean(1), found.min(1), found[:, :-1].mean(1), found[:, -1]]
        table.add_row(name, *(f"{c.mean():.1f} ± {c.std():.1f}" for c in columns))
    console = Console()
    console.print(table)
    console.print(f"{len(methods)} methods × {SEEDS} seeds in {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main(validation="--validation" in sys.argv[1:])
