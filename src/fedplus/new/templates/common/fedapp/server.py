"""The server: asks parties for their models, aggregates them, and keeps what it needs to go on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedplus.flower import FedPlus, state_folder
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedapp.method import LABEL, method
from fedapp.model import first

app = ServerApp()


def trained(grid: Grid, config: Mapping[str, Any], folder: Path) -> FedPlus:
    """Train, or go on from what the folder holds."""
    strategy = FedPlus(
        method(), rounds=config["rounds"], cohort=config["cohort"] or None, least=config["least"],
        deadline=config["deadline"], patience=config["patience"], folder=folder, label=LABEL,
        forget=str(config["forget"]).replace(",", " ").split(),
        allow_changes=config["allow-changes"],
    )  # fmt: skip
    strategy.run(grid, first())
    return strategy


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Called by Flower."""
    trained(grid, context.run_config, state_folder() / "fedapp" / "server")
