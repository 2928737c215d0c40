"""A party."""

import json
import time
from pathlib import Path

from flwr.clientapp import ClientApp

from fedplus.flower import Party
from regression import METHOD, STEPS, samples, step

app = ClientApp()


@app.train()
def train(message, context):
    k = context.node_config["partition-id"]
    folder = Path(context.run_config["party-folder"]) / str(k)
    party = Party(METHOD, message, context, folder)
    x, y = samples(k)
    w = party.start
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"begun-{party.round}").write_text(json.dumps(party.own["weight"].tolist()))
    time.sleep(context.run_config["pause"])
    for _ in range(STEPS):
        w = party.pull(step(w, x, y))
    return party.reply(w, {"num-examples": len(x)})
