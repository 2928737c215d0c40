"""The same runs on so many cores: ``python cores_run.py OUT CORES``."""

import sys
import tempfile

import jax
import numpy as np

import fedplus as fp
from fedplus.simulation import Fault, Stragglers, Trace, faults
from small_federation import CLASSIFIER, federation

PLUS = {"eta": 0.1, "sigma": 1.0, "delta": 0.05}
SIZES = (30, 7, 45, 12, 20, 30, 9)
THERE = np.arange(5)[:, None] % 3 != np.arange(7) % 3  # a third of the parties is away each round
RUNS = {
    "fedavg": (fp.presets.fedavg(eta=0.1), {"cohort": 4}),
    "one by one": (fp.presets.fedavg_plus(**PLUS), {"each": "map", "stragglers": Stragglers(0.9)}),
    "away": (fp.presets.fedgeomed_plus(**PLUS), {"cohort": Trace(THERE, 3)}),
    "attacked": (
        fp.presets.fedcomed_plus(**PLUS),
        {"faults": Fault((0, 1), faults.sign_flip(3.0))},
    ),
    "adapted": (fp.baselines.PerFedAvg(alpha=0.05, beta=0.1), {"cohort": 5}),
}


def resumed(settings):
    """The models of "fedavg" after a stop in the middle."""
    method, more = RUNS["fedavg"]
    with tempfile.TemporaryDirectory() as folder:
        for rounds in (3, 5):
            asked = settings | more | {"rounds": rounds, "checkpoint": folder, "resume": True}
            run = fp.simulate(method, federation(SIZES), CLASSIFIER, **asked)
    return run.models


def main(out, cores):
    settings = {
        "rounds": 5, "epochs": 2, "batch_size": 8, "evaluate_every": 2, "progress": False,
        "cores": int(cores),
    }  # fmt: skip
    found = {}
    for name, (method, more) in RUNS.items():
        run = fp.simulate(method, federation(SIZES), CLASSIFIER, **settings | more)
        found[name] = run.models
        found[f"{name}, loss"] = run.evaluations["personal_loss"]
        found[f"{name}, cohort"] = run.figures["cohort"]
    found["resumed"] = resumed(settings)
    several = [fp.presets.fedgeomed_plus(eta=0.1, sigma=1.0, delta=d) for d in (0.01, 0.1)]
    lanes = fp.sweep(
        several, federation(SIZES), CLASSIFIER, seeds=(0, 1), cohort=5, **settings | {"rounds": 3}
    )
    found["lanes"] = np.stack([run.models for run in lanes])
    np.savez(out, devices=len(jax.devices()), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
