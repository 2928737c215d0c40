"""A party: trains on its own data, from its own model, and keeps both."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from fedplus.flower import Party
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedapp.data import held
from fedapp.model import judged, trained

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round. How much a party does is its own choice: steps, seconds, or both.

    ``fedplus-supernode --node-config "partition-id=0 num-partitions=3 steps=50 seconds=30.0"``
    """
    node: Mapping[str, Any] = context.node_config
    party = Party(message, context)
    data = held(node)
    work = party.work(node.get("steps", context.run_config["steps"]), node.get("seconds"))
    rng = np.random.default_rng([int(node["partition-id"]), party.round])
    w, kept = trained(party, data.x, data.y, work, rng)
    score, loss = judged(w, kept, data.x_test, data.y_test)
    of_global, loss_of_global = judged(party.received, kept, data.x_test, data.y_test)
    scores = {
        "num-examples": len(data.y), "personal-score": score, "personal-loss": loss,
        "global-score": of_global, "global-loss": loss_of_global,
    }  # fmt: skip
    return party.reply(w, scores, extra=kept)
