"""A run that a test kills and starts again: ``python resumable_run.py FOLDER ROUNDS OUT``."""

import sys
from pathlib import Path

import numpy as np

import fedplus as fp
from small_federation import CLASSIFIER, federation


def main(folder, rounds, out):
    run = fp.simulate(
        fp.presets.fedgeomed_plus(eta=0.05, sigma=1.0, delta=0.05), federation(), CLASSIFIER,
        rounds=int(rounds), cohort=3, steps=3, batch_size=8, evaluate_every=10,
        checkpoint=folder or None, checkpoint_every=5 if folder else None, resume=bool(folder),
    )  # fmt: skip
    arrays = {"w_local": run.state.w_local, "w_global": run.state.w_global}
    evaluations = {f"evaluated {name}": values for name, values in run.evaluations.items()}
    np.savez(Path(out), **arrays, **run.figures, **evaluations)


if __name__ == "__main__":
    main(*sys.argv[1:])
