"""The server."""

import json
from pathlib import Path

from flwr.serverapp import ServerApp

from fedplus.flower import FedPlus
from regression import METHOD, zeros

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    strategy = FedPlus(
        METHOD, rounds=config["rounds"], least=config["least"], folder=config["server-folder"],
        deadline=30.0, patience=90.0,
    )  # fmt: skip
    strategy.run(grid, zeros())
    told = {
        "done": strategy.state.done, "skipped": strategy.state.skipped, "dropped": strategy.dropped,
        "w_global": strategy.state.w_global.tolist(),
        "models": sorted(w.tolist() for w in strategy.state.models.values()),
    }  # fmt: skip
    (Path(config["server-folder"]) / "told.json").write_text(json.dumps(told))
