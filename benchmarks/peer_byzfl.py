"""Time byzfl's aggregators on a given W; ``aggregation.py`` runs this in byzfl's environment."""

import importlib.util
import json
import sys
import time
import types

import numpy as np
import torch

# byzfl's package imports torchvision at its root, which its aggregators do not use.
root = types.ModuleType("byzfl")
root.__path__ = importlib.util.find_spec("byzfl").submodule_search_locations
sys.modules["byzfl"] = root

from byzfl.aggregators import aggregators  # noqa: E402


def timed(call, vectors, repeats=21, least=0.5, seconds=6.0):
    """Return the median milliseconds of repeated calls, as many as ``aggregation.timed`` makes."""
    call(vectors)
    times, begun, took = [], time.perf_counter(), 0.0
    while not ((len(times) >= repeats and took > least) or (len(times) >= 3 and took > seconds)):
        start = time.perf_counter()
        call(vectors)
        times.append(1e3 * (time.perf_counter() - start))
        took = time.perf_counter() - begun
    return float(np.median(times))


def iterations_needed(vectors, delta):
    """Return the least number of iterations that brings the geometric median near its limit (1e-6)."""
    exact = vectors.double()
    end = aggregators.GeometricMedian(nu=delta, T=400)(exact)
    size = float((exact - end).norm(dim=1).median())
    for iterations in (3, 4, 6, 8, 11, 16, 22, 32, 45, 64, 90, 128):
        found = aggregators.GeometricMedian(nu=delta, T=iterations)(vectors)
        if float((found - end).norm()) <= 1e-6 * size:
            break
    return iterations


path, iterations, delta = sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3])
vectors = torch.from_numpy(np.load(path))
iterations = iterations or iterations_needed(vectors, delta)
found = {
    "iterations": iterations,
    "byzfl median": timed(aggregators.Median(), vectors),
    "byzfl geometric median": timed(aggregators.GeometricMedian(nu=delta, T=iterations), vectors),
}
print(json.dumps(found))
