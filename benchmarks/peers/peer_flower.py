# ruff: noqa: E402
"""Time FedAvg in Flower's simulation, with Ray, one client per core, and PyTorch in the clients."""

import os
import shutil
import tempfile
from pathlib import Path

home = Path(os.environ.setdefault("FLWR_HOME", tempfile.mkdtemp(prefix="flower-")))
os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_DEDUP_LOGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONPATH": str(Path(__file__).parent),
}

import logging
import threading
from importlib.metadata import version

import numpy as np
import torch
from clock import Clock, arguments
from flower_client import client_app
from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch_parts import loss_on, make_model
from tree_memory import watch
from workloads import check_rows, federation

server_app = ServerApp()


class TimingDoneError(Exception):
    """Raised to end Flower's loop when enough rounds have been timed."""


@server_app.main()
def main(grid, context):
    """Run the strategy's own loop, with the clock in place of its evaluation."""

    def tick(number, arrays):
        last[0] = arrays
        if number > 0 and clock.tick():
            raise TimingDoneError

    strategy = FedAvg(
        fraction_train=work.active / work.parties,
        fraction_evaluate=0.0,
        min_train_nodes=work.active,
        min_available_nodes=work.parties,
    )
    initial = ArrayRecord(make_model(work).state_dict())
    config = ConfigRecord({"name": work.name, "folder": str(home)})
    try:
        strategy.start(grid, initial, 10**9, train_config=config, evaluate_fn=tick)
    except TimingDoneError:
        return


if __name__ == "__main__":
    options = arguments()
    work = options.workload
    logging.getLogger("flwr").setLevel(logging.ERROR)
    data = federation(work)
    rows = tuple(map(torch.from_numpy, check_rows(data)))
    np.save(home / "starts.npy", np.cumsum([0] + [len(y) for _, y in data]))
    for part, name in enumerate("xy"):
        np.save(home / f"{name}.npy", np.concatenate([row[part] for row in data]))
    del data
    clock, last, peak, running = Clock(options.seconds), [None], [0.0], threading.Event()
    running.set()
    threading.Thread(target=watch, args=(peak, running), daemon=True).start()
    try:
        run_simulation(
            server_app,
            client_app,
            work.parties,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
        running.clear()
        model = make_model(work)
        losses = [loss_on(work, model, rows)]
        model.load_state_dict(last[0].to_torch_state_dict())
        losses.append(loss_on(work, model, rows))
        ray = version("ray")
        clock.report("flower", version("flwr"), options, losses, peak_rss_mb=peak[0], ray=ray)
    finally:
        shutil.rmtree(home, ignore_errors=True)
