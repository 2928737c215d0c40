"""Several runs on a given number of cores: ``python multicore_run.py OUT CORES``."""

import sys
import tempfile

import jax
import numpy as np

import fedplus as fp
from fedplus.simulation import Fault, Stragglers, Trace, faults
from small_federation import CLASSIFIER, federation

PLUS = {"eta": 0.1, "sigma": 1.0, "delta": 0.05}
SIZES = (30, 7, 45, 12, 20, 30, 9)
AVAILABLE = np.arange(5)[:, None] % 3 != np.arange(7) % 3  # without a third of the parties
RUNS = {
    "fedavg": (fp.presets.fedavg(eta=0.1), {"cohort": 4}),
    "sequential": (fp.presets.fedavg_plus(**PLUS), {"each": "map", "stragglers": Stragglers(0.9)}),
    "trace": (fp.presets.fedgeomed_plus(**PLUS), {"cohort": Trace(AVAILABLE, 3)}),
    "attacked": (
        fp.presets.fedcomed_plus(**PLUS),
        {"faults": Fault((0, 1), faults.sign_flip(3.0))},
    ),
    "adapted": (fp.baselines.PerFedAvg(alpha=0.05, beta=0.1), {"cohort": 5}),
}


def resumed_models(settings):
    """Return the models of the run "fedavg" when it is stopped and resumed."""
    method, more = RUNS["fedavg"]
    with tempfile.TemporaryDirectory() as folder:
        for rounds in (3, 5):
            arguments = settings | more | {"rounds": rounds, "checkpoint": folder, "resume": True}
            run = fp.simulate(method, federation(SIZES), CLASSIFIER, **arguments)
    return run.models


def main(out, cores):
    settings = {
        "rounds": 5, "epochs": 2, "batch_size": 8, "evaluate_every": 2, "progress": False,
        "cores": int(cores),
    }  # fmt: skip
    results = {}
    for name, (method, more) in RUNS.items():
        run = fp.simulate(method, federation(SIZES), CLASSIFIER, **settings | more)
        results[name] = run.models
        results[f"{name}, loss"] = run.evaluations["personal_loss"]
        results[f"{name}, cohort"] = run.figures["cohort"]
    results["resumed"] = resumed_models(settings)
    methods = [fp.presets.fedgeomed_plus(eta=0.1, sigma=1.0, delta=d) for d in (0.01, 0.1)]
    lanes = fp.sweep(
        methods, federation(SIZES), CLASSIFIER, seeds=(0, 1), cohort=5, **settings | {"rounds": 3}
    )
    results["lanes"] = np.stack([run.models for run in lanes])
    np.savez(out, devices=len(jax.devices()), **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
