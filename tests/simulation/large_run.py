"""100,000 parties, 784 features, 100 active a round: prints the peak memory of the process in kB."""

import dataclasses
import sys
from pathlib import Path

import numpy as np

import fedplus as fp
from fedplus import models, presets

rng = np.random.default_rng(0)
x = rng.integers(0, 2, (400_000, 784), dtype=np.uint8)
y = rng.integers(0, 10, 400_000)
parties = [(x[4 * k : 4 * k + 4], y[4 * k : 4 * k + 4]) for k in range(100_000)]
method = dataclasses.replace(presets.fedavg_plus(eta=0.01, sigma=1.0), over="active")
run = fp.simulate(
    method, fp.Federation.of(parties, test_share=0.25), models.logistic(784, 10), rounds=20,
    cohort=100, steps=2, batch_size=3, evaluate_every=20, store=sys.argv[1],
)  # fmt: skip
assert run.evaluations["personal_score"].shape == (1, 100_000)
assert len(np.unique(run.figures["cohort"])) > 1900
status = Path("/proc/self/status").read_text().splitlines()
print(next(line for line in status if line.startswith("VmHWM")).split()[1])
