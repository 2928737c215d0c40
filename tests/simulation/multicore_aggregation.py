"""Aggregates and runs whose passes over W are shared by several cores.

Usage: ``python multicore_aggregation.py OUT CORES``.
"""

import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

import fedplus as fp
from fedplus import models, presets
from fedplus._spmd import MIN_SHARED_ENTRIES
from fedplus.aggregation import CoordinateMedian, GeometricMedian, Mean, Moreau
from fedplus.psi import L1, L2, Custom
from fedplus.simulation.cpu_devices import make_cpu_mesh, run_on_all_cores

AGGREGATORS = {
    "mean": Mean(), "geometric median": GeometricMedian(), "coordinate median": CoordinateMedian(),
    "δ-geometric": Moreau(L2(0.1)), "δ-coordinate": Moreau(L1(0.1)),
    "own ψ": Moreau(Custom(lambda x: 0.5 * jnp.sum(x * x), lambda x: 0.5 * x)),
}  # fmt: skip
SHAPES = ((1001, 1061), (150, 7850), (5, MIN_SHARED_ENTRIES // 4))
PLUS = {"eta": 0.1, "sigma": 1.0, "delta": 0.05}


def inputs(shape):
    """Return models with outliers and duplicates, and pairs of weights (some are 0) and a start."""
    rng = np.random.default_rng(0)
    w_local = rng.standard_normal(shape).astype(np.float32)
    w_local[: shape[0] // 5] += 100
    w_local[-3:] = w_local[-1]
    weights = rng.integers(0, 4, shape[0]).astype(np.float32) + (np.arange(shape[0]) == 1)
    start = (np.median(w_local, axis=0) + 0.01).astype(np.float32)
    return w_local, ((None, None), (weights, None), (None, start))


def aggregate_all(mesh):
    """Return the aggregates of all aggregators on all inputs.

    A start at one of only two parties makes the solvers take other branches.
    """
    aggregates = {}
    for name, aggregator in AGGREGATORS.items():
        solve = jax.jit(run_on_all_cores(mesh, lambda *args, solver=aggregator: solver(*args)))
        for shape in SHAPES:
            w_local, weights_and_starts = inputs(shape)
            for weights, start in weights_and_starts:
                key = f"{name}, {shape}, {weights is None}, {start is None}"
                aggregates[key] = solve(w_local, weights, start).w
        pair = np.eye(2, MIN_SHARED_ENTRIES // 2, dtype=np.float32)
        aggregates[f"{name}, pair"] = solve(pair, None, pair[0]).w
    return aggregates


def train_all(cores):
    """Yield w̃ of each preset that aggregates all parties, without and with a stop in the middle."""
    rng = np.random.default_rng(1)
    parties = [(rng.standard_normal((4, 700)), rng.integers(0, 5, 4)) for _ in range(300)]
    federation = fp.Federation.from_arrays(parties, parties)
    settings = {
        "rounds": 4,
        "cohort": 5,
        "steps": 2,
        "batch_size": 2,
        "cores": cores,
        "progress": False,
    }
    for make in (presets.fedavg_plus, presets.fedgeomed_plus, presets.fedcomed_plus):
        run = fp.simulate(make(**PLUS), federation, models.logistic(700, 5), **settings)
        yield make.__name__, run.w_global
        with tempfile.TemporaryDirectory() as folder:
            for rounds in (2, 4):
                more = {"rounds": rounds, "checkpoint": folder, "resume": True}
                run = fp.simulate(
                    make(**PLUS), federation, models.logistic(700, 5), **settings | more
                )
        yield f"{make.__name__}, resumed", run.w_global


def main(out, cores):
    results = aggregate_all(make_cpu_mesh(int(cores), 8)) | dict(train_all(int(cores)))
    np.savez(out, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
