"""The server's side: collect the parties' models, aggregate them, and save checkpoints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedplus.flower import FedPlus, state_folder
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedapp.method import LABEL, make_method
from fedapp.model import initial_model

app = ServerApp()


def run_federation(grid: Grid, config: Mapping[str, Any], folder: Path) -> FedPlus:
    """Train a new federation, or continue from the folder's checkpoint; return the strategy."""
    strategy = FedPlus(
        make_method(), rounds=config["rounds"], cohort=config["cohort"] or None,
        least=config["least"], deadline=config["deadline"], patience=config["patience"],
        folder=folder, label=LABEL, forget=str(config["forget"]).replace(",", " ").split(),
        parties=config["parties"], allow_changes=config["allow-changes"],
    )  # fmt: skip
    strategy.run(grid, initial_model())
    return strategy


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation; Flower calls this function."""
    run_federation(grid, context.run_config, state_folder() / "fedapp" / "server")
