"""A run with 100,000 parties, 784 features and a cohort of 100; prints the peak memory in kB."""

import dataclasses
import sys
from pathlib import Path

import numpy as np

import fedplus as fp
from fedplus import models, presets

PARTIES = 100_000


def main(folder):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (4 * PARTIES, 784), dtype=np.uint8)
    y = rng.integers(0, 10, 4 * PARTIES)
    parties = [(x[4 * k : 4 * k + 4], y[4 * k : 4 * k + 4]) for k in range(PARTIES)]
    method = dataclasses.replace(presets.fedavg_plus(eta=0.01, sigma=1.0), over="active")
    run = fp.simulate(
        method, fp.Federation.from_arrays(parties, test_share=0.25), models.logistic(784, 10),
        rounds=20, cohort=100, steps=2, batch_size=3, evaluate_every=20, store=folder,
    )  # fmt: skip
    assert run.evaluations["personal_score"].shape == (1, PARTIES)
    assert len(np.unique(run.figures["cohort"])) > 1900
    status = Path("/proc/self/status").read_text().splitlines()
    print(next(line for line in status if line.startswith("VmHWM")).split()[1])


if __name__ == "__main__":
    main(sys.argv[1])
