"""The server."""

import json
from pathlib import Path

from flwr.serverapp import ServerApp

from fedplus.flower import FedPlus
from regression.tasks import TASKS, method

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    task = TASKS[config["task"]]
    strategy = FedPlus(
        method(config["method"], task), rounds=config["rounds"], least=config["least"],
        folder=config["server-folder"], deadline=config["deadline"], patience=config["patience"],
    )  # fmt: skip
    strategy.run(grid, task.first())
    told = {
        "done": strategy.state.done, "skipped": strategy.state.skipped, "dropped": strategy.dropped,
        "w_global": strategy.state.w_global.tolist(),
        "models": sorted(w.tolist() for w in strategy.state.models.values()),
    }  # fmt: skip
    path = Path(config["server-folder"]) / "told.json"
    path.with_suffix(".tmp").write_text(json.dumps(told))
    path.with_suffix(".tmp").replace(path)
