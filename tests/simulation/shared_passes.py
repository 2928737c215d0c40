"""Aggregates and runs whose passes over W so many cores share: ``shared_passes.py OUT CORES``."""

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
from fedplus.simulation.cpu_devices import devices_for, run_on_all

AGGREGATORS = {
    "mean": Mean(), "geometric median": GeometricMedian(), "coordinate median": CoordinateMedian(),
    "δ-geometric": Moreau(L2(0.1)), "δ-coordinate": Moreau(L1(0.1)),
    "own ψ": Moreau(Custom(lambda x: 0.5 * jnp.sum(x * x), lambda x: 0.5 * x)),
}  # fmt: skip
SHAPES = ((1001, 1061), (150, 7850), (5, MIN_SHARED_ENTRIES // 4))
PLUS = {"eta": 0.1, "sigma": 1.0, "delta": 0.05}


def inputs(shape):
    """A fifth of the parties far away, some alike; weights, of which some are 0; a start."""
    rng = np.random.default_rng(0)
    w_local = rng.standard_normal(shape).astype(np.float32)
    w_local[: shape[0] // 5] += 100
    w_local[-3:] = w_local[-1]
    weights = rng.integers(0, 4, shape[0]).astype(np.float32) + (np.arange(shape[0]) == 1)
    start = (np.median(w_local, axis=0) + 0.01).astype(np.float32)
    return w_local, ((None, None), (weights, None), (None, start))


def aggregated(mesh):
    """Everything on everything; a pair of parties, one at each place, is where turns go another way."""
    found = {}
    for name, aggregator in AGGREGATORS.items():
        solve = jax.jit(run_on_all(mesh, lambda *args, of=aggregator: of(*args)))
        for shape in SHAPES:
            w_local, others = inputs(shape)
            for weights, start in others:
                key = f"{name}, {shape}, {weights is None}, {start is None}"
                found[key] = solve(w_local, weights, start).w
        pair = np.eye(2, MIN_SHARED_ENTRIES // 2, dtype=np.float32)
        found[f"{name}, pair"] = solve(pair, None, pair[0]).w
    return found


def trained(cores):
    """Rounds that aggregate the models of all parties, by the presets that do; and with a stop."""
    rng = np.random.default_rng(1)
    parties = [(rng.standard_normal((4, 700)), rng.integers(0, 5, 4)) for _ in range(300)]
    federation = fp.Federation.from_arrays(parties, parties)
    asked = {
        "rounds": 4,
        "cohort": 5,
        "steps": 2,
        "batch_size": 2,
        "cores": cores,
        "progress": False,
    }
    for make in (presets.fedavg_plus, presets.fedgeomed_plus, presets.fedcomed_plus):
        run = fp.simulate(make(**PLUS), federation, models.logistic(700, 5), **asked)
        yield make.__name__, run.w_global
        with tempfile.TemporaryDirectory() as folder:
            for rounds in (2, 4):
                more = {"rounds": rounds, "checkpoint": folder, "resume": True}
                run = fp.simulate(make(**PLUS), federation, models.logistic(700, 5), **asked | more)
        yield f"{make.__name__}, resumed", run.w_global


def main(out, cores):
    found = aggregated(devices_for(int(cores), 8)) | dict(trained(int(cores)))
    np.savez(out, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
