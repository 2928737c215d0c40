"""A run over several devices: ``python sharded_run.py OUT [COORDINATOR PROCESSES PROCESS]``."""

import sys

import jax
import numpy as np

if __name__ == "__main__" and len(sys.argv) > 2:
    jax.distributed.initialize(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

import fedplus as fp
from small_federation import CLASSIFIER, federation


def main(out):
    devices = jax.devices()
    mesh = jax.sharding.Mesh(np.array(devices), ("parties",)) if len(devices) > 1 else None
    results = {"devices": len(devices)}
    even, uneven = (30,) * 16, (30, 7, 45, 12, 20)  # The rows of the first are sharded.
    plus = {"eta": 0.1, "sigma": 1.0, "delta": 0.05}
    for name, sizes, method in (
        ("fedavg", even, fp.presets.fedavg(eta=0.1)),
        ("geo", even, fp.presets.fedgeomed_plus(**plus)),
        ("com", uneven, fp.presets.fedcomed_plus(**plus)),
    ):
        run = fp.simulate(
            method, federation(sizes), CLASSIFIER, rounds=5, cohort=5, steps=3, batch_size=8,
            evaluate_every=2, mesh=mesh,
        )  # fmt: skip
        results[f"{name} {len(sizes)} models"] = run.models
        results[f"{name} {len(sizes)} loss"] = run.evaluations["personal_loss"]
        results[f"{name} {len(sizes)} cohort"] = run.figures["cohort"]
    if jax.process_index() == 0:
        np.savez(out, **results)


if __name__ == "__main__":
    main(sys.argv[1])
