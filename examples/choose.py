"""Choose σ and δ of each Fed+ variant for the demonstration, on validation images.

A fifth of each party's training images is held out for validation; the test images are not used. The
best δ are the defaults of ``fedplus.presets``. A best σ that differs from the default is stated for
``digits-robust`` in ``fedplus/experiments/defaults.py``, and on the card of the data set.

    .venv/bin/python examples/choose.py
"""

import numpy as np
from rich.console import Console
from rich.table import Table

import fedplus as fp
from fedplus import presets

ROUNDS, STEPS, BATCH, SEEDS = 150, 20, 20, 5
ETA = 0.02
PLUS = {
    "FedAvg+": presets.fedavg_plus,
    "FedGeoMed+": presets.fedgeomed_plus,
    "FedCoMed+": presets.fedcomed_plus,
}
SIGMAS, DELTAS = (0.5, 5.0), (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def load_with_validation_as_test(seed: int) -> fp.Federation:
    """Return the federation of the demonstration with its validation images as test images."""
    federation = fp.data.load("digits-robust", seed=seed, validation_share=0.2)
    assert federation.validation is not None
    return federation._replace(test=federation.validation)


def main() -> None:
    """Train all candidates of each variant, and print their validation accuracies."""
    splits = [load_with_validation_as_test(seed) for seed in range(SEEDS)]
    model = fp.models.logistic(64, classes=10)
    table = Table(
        title="Validation accuracy of each party's own model, %, mean over parties and seeds"
    )
    for column in ("method", "σ", f"δ = {DELTAS[0]:g}", *(f"{delta:g}" for delta in DELTAS[1:])):
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for name, make in PLUS.items():
        for sigma in SIGMAS:
            methods = [make(eta=ETA, sigma=sigma, delta=delta) for delta in DELTAS]
            scores = np.zeros(len(DELTAS))
            for seed, split in enumerate(splits):
                runs = fp.sweep(
                    methods, split, model, rounds=ROUNDS, steps=STEPS, batch_size=BATCH,
                    seeds=[seed], evaluate_every=ROUNDS,
                )  # fmt: skip
                scores += [100 * run.summary().mean / SEEDS for run in runs]
            best = int(scores.argmax())
            cells = [f"{x:.2f}" + ("*" if i == best else "") for i, x in enumerate(scores)]
            table.add_row(name, f"{sigma:g}", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
