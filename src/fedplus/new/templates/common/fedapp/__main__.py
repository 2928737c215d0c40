"""Run the server and all parties in this process, to try and debug the app: ``python -m fedapp``."""

import json
import logging
import os
import time
import tomllib
from pathlib import Path

from fedplus.flower import InProcessGrid

from fedapp.party import app
from fedapp.server import run_federation

if __name__ == "__main__":
    logging.getLogger("flwr").setLevel(logging.WARNING)
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"]
    folder = Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    os.environ["FEDPLUS_STATE"] = str(folder / "state")
    grid = InProcessGrid(app, config["parties"], run_config=config)
    strategy = run_federation(grid, config, folder / "server")
    last = json.loads((folder / "server" / "rounds.jsonl").read_text().splitlines()[-1])
    print(f"After {strategy.state.rounds_done} rounds, accuracy on each party's own test samples:")
    print("party   its own model   the global model")
    pairs = zip(last["personal_score"], last["global_score"], strict=True)
    for k, (personal_score, global_score) in enumerate(pairs):
        print(f"{k:5}   {personal_score:13.1%}   {global_score:16.1%}")
    print(f"A report: fedplus report {folder / 'server'}")
