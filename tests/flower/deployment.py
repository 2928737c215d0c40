"""The tests' app on this machine, in real processes, and what they leave behind."""

import json
import sys
import tomllib
from pathlib import Path

import numpy as np

from fedplus._checkpoint import latest_round, load
from fedplus.flower import FedPlus, InProcessGrid
from fedplus.flower.local_deployment import COMPLETED, CONNECTION, LocalDeployment
from fedplus.flower.processes import command_line, descendants, kill
from fedplus.flower.restore import latest_intact_checkpoint

APP = Path(__file__).parent / "app"


class Deployment(LocalDeployment):
    """With folders that tests can look into, and ways to crash."""

    def __init__(self, folder, apps=()):
        quick = {"JAX_PLATFORMS": "cpu", "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5"}
        super().__init__(APP, folder, quick, apps)
        self.server, self.parties = folder / "server", folder / "parties"

    def begin(self, parties):
        """The server and so many parties."""
        self.superlink()
        for k in range(parties):
            self.supernode(k, self.key(k), num_partitions=parties)

    def train(self, **config):
        """Run the tests' app; its run's id."""
        self.server.mkdir(exist_ok=True)
        folders = {"server_folder": str(self.server), "party_folder": str(self.parties)}
        return self.run(**config, **folders)

    def crash(self, name, command=""):
        """SIGKILL to what a process has started, or to what runs a command; not to itself."""
        found = [
            pid for pid in descendants(self.processes[name].pid) if command in command_line(pid)
        ]
        assert found, f"{name} runs no {command}"
        kill(found)

    def said(self, run):
        """What the run's server has logged, in one line."""
        return " ".join(self.flwr("log", run, CONNECTION, "--show").split())

    def rounds(self):
        """Rounds that the server has done and saved."""
        return latest_round(self.server / "checkpoint")

    def checkpoint(self):
        """What the server has saved last."""
        return load(self.server / "checkpoint")

    def kept(self, k, before=None):
        """What a party has on its disk."""
        (folder,) = filter(Path.is_dir, (self.parties / str(k) / "state").iterdir())
        return latest_intact_checkpoint(folder, before)

    def begun(self, k, round_):
        """Where a party's steps of a round have begun, once they have."""
        path = self.parties / str(k) / f"begun-{round_}"
        return np.array(json.loads(path.read_text())) if path.exists() else None

    def told(self, run, seconds=300):
        """What the server tells at the end of a run."""
        path = self.server / "told.json"
        self.wait(path.exists, "the run", seconds)
        self.wait(lambda: self.status(run) == COMPLETED, "the end of the run")
        return json.loads(path.read_text())


def in_process(folder, rounds, parties=2, tamper=None, **config):
    """The same app without a server; the strategy once it has run."""
    sys.path.insert(0, str(APP))
    try:
        from regression.client import app
        from regression.tasks import TASKS, method
    finally:
        sys.path.remove(str(APP))
    written = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    config = written | {"party-folder": str(folder)} | config
    task = TASKS[config["task"]]
    strategy = FedPlus(method(config["method"], task), rounds=rounds, folder=folder / "server")
    strategy.run(InProcessGrid(app, parties, run_config=config, tamper=tamper), task.first())
    return strategy
