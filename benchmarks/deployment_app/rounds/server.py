"""The server: writes when it sent each round's messages, and when it was done."""

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
    config = context.run_config
    contender, parties, folder = config["contender"], config["parties"], Path(config["folder"])
    push, sent = grid.push_messages, []

    def noted(messages):
        messages = list(messages)
        if messages:
            sent.append(time.monotonic())
        return push(messages)

    grid.push_messages = noted
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
    told = folder / "told"
    told.write_text(json.dumps([*sent, time.monotonic()]))
    told.replace(folder / "told.json")
