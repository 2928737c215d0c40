"""The party's side: train the party's own model on its own data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from fedplus.flower import Party
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedapp.data import load_data
from fedapp.model import evaluate, initial_model, train_model

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for one round. Each party can limit its own steps, by number, by seconds, or by both.

    ``fedplus-supernode --node-config "partition-id=0 num-partitions=3 steps=50 seconds=30.0"``
    """
    node: Mapping[str, Any] = context.node_config
    party = Party(message, context, initial=initial_model())
    data = load_data(node)
    steps = party.local_steps(node.get("steps", context.run_config["steps"]), node.get("seconds"))
    rng = np.random.default_rng([int(node["partition-id"]), party.round])
    w, extra = train_model(party, data.x, data.y, steps, rng)
    _, start_loss = evaluate(party.start, party.extra, data.x, data.y)
    _, end_loss = evaluate(w, extra, data.x, data.y)
    score, loss = evaluate(w, extra, data.x_test, data.y_test)
    w_global = party.own_model | party.global_model  # Private layers are the party's own.
    global_score, global_loss = evaluate(w_global, extra, data.x_test, data.y_test)
    metrics = {
        "num-examples": len(data.y), "personal-score": score, "personal-loss": loss,
        "global-score": global_score, "global-loss": global_loss,
        "start-loss": start_loss, "end-loss": end_loss,  # Their comparison shows divergence.
    }  # fmt: skip
    return party.reply(w, metrics, extra=extra)
