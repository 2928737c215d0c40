"""A deployment of the tests' app in real processes, which can crash, and access to its results."""

import json
import sys
import tomllib
from pathlib import Path

import numpy as np

from fedplus._checkpoint_file import latest_round, load
from fedplus.flower import FedPlus, InProcessGrid
from fedplus.flower.local_deployment import COMPLETED, CONNECTION, LocalDeployment
from fedplus.flower.processes import command_line, descendants, kill
from fedplus.flower.restore import latest_intact_checkpoint

APP = Path(__file__).parent / "app"


class AppDeployment(LocalDeployment):
    """A deployment of the tests' app, with its folders and methods to crash its processes."""

    def __init__(self, folder, apps=()):
        environment = {"JAX_PLATFORMS": "cpu", "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5"}
        super().__init__(APP, folder, environment, apps)
        self.server, self.parties = folder / "server", folder / "parties"

    def start(self, parties):
        """Start the server and this number of parties."""
        self.start_superlink()
        for k in range(parties):
            self.start_supernode(k, self.register_key(k), num_partitions=parties)

    def train(self, **config):
        """Submit a run of the tests' app; return its id."""
        self.server.mkdir(exist_ok=True)
        folders = {"server_folder": str(self.server), "party_folder": str(self.parties)}
        return self.submit(**config, **folders)

    def crash(self, name, command=""):
        """Send SIGKILL to the descendants of a process whose command line contains a text."""
        pids = [
            pid for pid in descendants(self.processes[name].pid) if command in command_line(pid)
        ]
        assert pids, f"{name} runs no {command}"
        kill(pids)

    def server_log(self, run):
        """Return the log of the run's server, in one line."""
        return " ".join(self.flwr("log", run, CONNECTION, "--show").split())

    def rounds_done(self):
        """Return the number of rounds in the server's last checkpoint."""
        return latest_round(self.server / "checkpoint")

    def checkpoint(self):
        """Return the server's last checkpoint."""
        return load(self.server / "checkpoint")

    def party_checkpoint(self, k, before=None):
        """Return the checkpoint of a party."""
        (folder,) = filter(Path.is_dir, (self.parties / str(k) / "state").iterdir())
        return latest_intact_checkpoint(folder, before)

    def round_start(self, k, round_):
        """Return the model with which a party has started a round, or None if it has not yet."""
        path = self.parties / str(k) / f"start-{round_}"
        return np.array(json.loads(path.read_text())) if path.exists() else None

    def result(self, run, seconds=300):
        """Wait for the end of a run and return the result that its server has written."""
        path = self.server / "result.json"
        self.wait_until(path.exists, "the run", seconds)
        self.wait_until(lambda: self.status(run) == COMPLETED, "the end of the run")
        return json.loads(path.read_text())


def run_in_process(folder, rounds, parties=2, tamper=None, **config):
    """Run the same app without a server, and return the strategy."""
    sys.path.insert(0, str(APP))
    try:
        from regression.client import app
        from regression.tasks import TASKS, make_method
    finally:
        sys.path.remove(str(APP))
    project = tomllib.loads((APP / "pyproject.toml").read_text())
    defaults = project["tool"]["flwr"]["app"]["config"]
    config = defaults | {"party-folder": str(folder)} | config
    task = TASKS[config["task"]]
    method = make_method(config["method"], task)
    strategy = FedPlus(method, rounds=rounds, folder=folder / "server")
    grid = InProcessGrid(app, parties, run_config=config, tamper=tamper)
    strategy.run(grid, task.initial_model())
    return strategy
