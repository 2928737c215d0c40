"""Runs a server that gets 6,400 replies, a random half of them malformed; prints its memory growth."""

import json
import logging
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Error, Message, RecordDict

import fedplus as fp
from fedplus.flower import FedPlus, InProcessGrid

PARTIES, ROUNDS = 40, 160
WARM_UP = 20
"""Rounds after which JAX has compiled its programs."""


def resident_memory():
    """Return the megabytes of memory that this process uses."""
    with Path("/proc/self/status").open() as file:
        (line,) = (line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def main():
    rng = np.random.default_rng(0)
    memory = []

    def train(message, context):
        w = rng.normal(size=4).astype(np.float32)
        arrays = {"bias": w[:1], "weight": w[1:].reshape(1, 3)}
        kind = rng.integers(8)
        if kind == 0:
            arrays["bias"] = arrays["bias"] * np.float32(np.nan)
        if kind == 1:
            arrays["weight"] = rng.normal(size=(1, int(rng.integers(4, 100_000)))).astype("f4")
        if kind == 2:
            arrays["x" * int(rng.integers(1, 100_000))] = w
        if kind == 3:
            return Message(Error(1, "y" * int(rng.integers(1, 1_000_000))), reply_to=message)
        record = ArrayRecord({name: Array(a) for name, a in arrays.items()})
        return Message(RecordDict({"arrays": record}), reply_to=message)

    class MeasuringGrid(InProcessGrid):
        def get_node_ids(self):
            memory.append(resident_memory())
            return super().get_node_ids()

    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    strategy = FedPlus(fp.presets.rfa(eta=0.1), rounds=ROUNDS)
    first = {"bias": np.zeros(1, np.float32), "weight": np.zeros((1, 3), np.float32)}
    strategy.run(MeasuringGrid(train, PARTIES), first)
    growth = memory[-1] - memory[WARM_UP]
    replies = PARTIES * (ROUNDS - WARM_UP)
    recent = len(strategy.dropped.recent)
    print(json.dumps({"growth": growth, "replies": replies, "recent": recent}))


if __name__ == "__main__":
    main()
