"""How σ and δ of the demonstration were chosen: on validation images, for each Fed+ variant.

Of each party's training images a fifth is held back, and judges; the test images play no part. The
winning δ are the defaults of ``fedplus.presets``; where the winning σ is not the usual one,
``fedplus/experiments/defaults.py`` has it for ``digits-robust``, and its card names it.

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


def judged_on_validation(seed: int) -> fp.Federation:
    """The federation of the demonstration, its validation images in the place of the test images."""
    held = fp.data.load("digits-robust", seed=seed, validation_share=0.2)
    assert held.validation is not None
    return held._replace(test=held.validation)


def main() -> None:
    splits = [judged_on_validation(seed) for seed in range(SEEDS)]
    model = fp.models.logistic(64, classes=10)
    table = Table(
        title="Validation accuracy of each party's own model, %, mean over parties and seeds"
    )
    for column in ("method", "σ", f"δ = {DELTAS[0]:g}", *(f"{delta:g}" for delta in DELTAS[1:])):
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for name, make in PLUS.items():
        for sigma in SIGMAS:
            methods = [make(eta=ETA, sigma=sigma, delta=delta) for delta in DELTAS]
            found = np.zeros(len(DELTAS))
            for seed, split in enumerate(splits):
                runs = fp.sweep(
                    methods, split, model, rounds=ROUNDS, steps=STEPS, batch_size=BATCH,
                    seeds=[seed], evaluate_every=ROUNDS,
                )  # fmt: skip
                found += [100 * run.summary().mean / SEEDS for run in runs]
            best = int(found.argmax())
            shown = [f"{x:.2f}" + ("*" if i == best else "") for i, x in enumerate(found)]
            table.add_row(name, f"{sigma:g}", *shown)
    Console().print(table)


if __name__ == "__main__":
    main()
