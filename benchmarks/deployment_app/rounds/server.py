"""The server of the benchmark: it records when it sends each round's messages and when it ends."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from rounds import METHODS, method

app = ServerApp()


@app.main()
def main(grid, context):
    """Train with the contender of the run configuration, and write ``times.json``."""
    config = context.run_config
    contender, parties, folder = config["contender"], config["parties"], Path(config["folder"])
    push, sent = grid.push_messages, []

    def push_and_record_time(messages):
        messages = list(messages)
        if messages:
            sent.append(time.monotonic())
        return push(messages)

    grid.push_messages = push_and_record_time
    first = {"w": np.zeros(config["d"], np.float32)}
    if contender in METHODS:
        from fedplus.flower import FedPlus

        strategy = FedPlus(
            method(contender), rounds=config["rounds"], least=parties, folder=folder / "server"
        )
        strategy.run(grid, first)
    else:
        strategy = FedAvg(
            fraction_evaluate=0.0, min_train_nodes=parties, min_available_nodes=parties
        )
        arrays = ArrayRecord({"w": Array(first["w"])})
        strategy.start(grid, arrays, num_rounds=config["rounds"], timeout=600)
    temporary = folder / "times.tmp"
    temporary.write_text(json.dumps([*sent, time.monotonic()]))
    temporary.replace(folder / "times.json")
