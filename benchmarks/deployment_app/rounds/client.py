"""A party of the benchmark: its loss is half the squared distance from a point of its own."""

from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from flwr.app import Message as Reply
from flwr.clientapp import ClientApp

from rounds import METHODS

app = ClientApp()


@app.train()
def train(message, context):
    """Return the model after one step, with fedplus or, for Flower's own strategy, without it."""
    contender, k = context.run_config["contender"], context.node_config["partition-id"]
    if contender in METHODS:
        from fedplus.flower import Party

        folder = Path(context.run_config["folder"]) / f"party-{k}"
        party = Party(message, context, folder)
        return party.reply(party.pull(step(party.start, k)), {"num-examples": 1})
    w = {name: array.numpy() for name, array in message.content["arrays"].items()}
    arrays = ArrayRecord({name: Array(a) for name, a in step(w, k).items()})
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})})
    return Reply(content, reply_to=message)


def step(w, k):
    """Return the model after a gradient step of party k, with learning rate 0.1."""
    return {name: (0.9 * a + 0.1 * np.float32(k)).astype(np.float32) for name, a in w.items()}
