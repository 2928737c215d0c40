"""The server's side of the tests' app."""

import json
from pathlib import Path

from flwr.serverapp import ServerApp

from fedplus.flower import FedPlus
from regression.tasks import TASKS, make_method

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    task = TASKS[config["task"]]
    strategy = FedPlus(
        make_method(config["method"], task), rounds=config["rounds"], least=config["least"],
        folder=config["server-folder"], deadline=config["deadline"], patience=config["patience"],
    )  # fmt: skip
    strategy.run(grid, task.initial_model())
    result = {
        "done": strategy.state.rounds_done, "skipped": strategy.state.rounds_skipped,
        "dropped": list(strategy.dropped.recent),
        "w_global": strategy.state.w_global.tolist(),
        "models": sorted(w.tolist() for w in strategy.state.models.values()),
    }  # fmt: skip
    path = Path(config["server-folder"]) / "result.json"
    path.with_suffix(".tmp").write_text(json.dumps(result))
    path.with_suffix(".tmp").replace(path)
