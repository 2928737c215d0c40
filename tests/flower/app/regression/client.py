"""The party's side of the tests' app."""

import json
import time
from pathlib import Path

from flwr.clientapp import ClientApp

from fedplus.flower import Party
from regression.faults import inject_fault
from regression.tasks import STEPS, TASKS

app = ClientApp()


@app.train()
def train(message, context):
    config, k = context.run_config, context.node_config["partition-id"]
    folder = Path(config["party-folder"]) / str(k)
    task = TASKS[config["task"]](k, context.node_config["num-partitions"])
    party = Party(message, context, folder / "state", initial=task.initial_model())
    fault = config["fault"] if k == config["faulty"] else ""
    pause = config["pause"]
    if fault == "late" and party.round == config["late-round"]:
        pause = config["late"]
    w = party.pull(task.step(party.start))
    write_start(folder / f"start-{party.round}", party.own_model)
    for _ in range(STEPS - 1):
        time.sleep(pause / (STEPS - 1))
        w = party.pull(task.step(w))
    reply = party.reply(w, {"num-examples": len(task.x), **task.scores(w, party.global_model)})
    return inject_fault(reply, fault, party, w)


def write_start(path, model):
    """Write the model with which the steps of a round have started, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name("temporary")
    temporary.write_text(json.dumps(model["weight"].tolist()))
    temporary.replace(path)
