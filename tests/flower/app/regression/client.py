"""A party."""

import json
import time
from pathlib import Path

from flwr.clientapp import ClientApp

from fedplus.flower import Party
from regression.faults import spoilt
from regression.tasks import STEPS, TASKS

app = ClientApp()


@app.train()
def train(message, context):
    config, k = context.run_config, context.node_config["partition-id"]
    folder = Path(config["party-folder"]) / str(k)
    task = TASKS[config["task"]](k, context.node_config["num-partitions"])
    party = Party(message, context, folder / "state")
    fault = config["fault"] if k == config["faulty"] else ""
    pause = config["pause"]
    if fault == "late" and party.round == config["late-round"]:
        pause = config["late"]
    w = party.pull(task.step(party.start))
    tell(folder / f"begun-{party.round}", party.own)
    for _ in range(STEPS - 1):
        time.sleep(pause / (STEPS - 1))
        w = party.pull(task.step(w))
    reply = party.reply(w, {"num-examples": len(task.x), **task.scores(w, party.received)})
    return spoilt(reply, fault, party, w)


def tell(path, own):
    """That the steps have begun, and from which model."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name("unfinished")
    unfinished.write_text(json.dumps(own["weight"].tolist()))
    unfinished.replace(path)
