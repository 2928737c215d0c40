"""A real deployment on loopback: SuperLink, SuperNodes, TLS, node keys, each a process of its own."""

import json
import os
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
from certificates import certificates, node_key
from processes import descendants, free_port, kill_all, line_of, reachable

from fedplus.flower import FedPlus, InProcessGrid
from fedplus.flower.kept import last_good
from fedplus.simulation.checkpoint import load, rounds_saved

BIN = Path(sys.executable).parent
APP = Path(__file__).parent / "app"


class Deployment:
    """Starts and stops the processes, and keeps what they write."""

    def __init__(self, folder):
        self.folder = folder
        self.server, self.parties = folder / "server", folder / "parties"
        self.keys = []
        self.processes = {}
        self.port = free_port()
        self.env = os.environ | {
            "FLWR_HOME": str(folder / "flwr"), "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1", "JAX_PLATFORMS": "cpu",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }  # fmt: skip
        (folder / "flwr").mkdir(parents=True)
        certificates(folder)
        (folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "loop"\n[superlink.loop]\n'
            f'address = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{folder / "ca.crt"}"\n'
        )

    def start(self, name, *command):
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(
            [*map(str, command)], env=self.env, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        log.close()

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def crash(self, name, command=""):
        """SIGKILL to what a process has started, or to what runs a command; not to itself."""
        found = [pid for pid in descendants(self.processes[name].pid) if command in line_of(pid)]
        assert found, f"{name} runs no {command}"
        kill_all(found)

    def kill(self, name):
        """SIGKILL to the process and all that it started."""
        process = self.processes.pop(name)
        kill_all([process.pid, *descendants(process.pid)])
        process.wait()

    def close(self):
        for name in list(self.processes):
            self.kill(name)

    def begin(self, parties):
        """The server and so many parties."""
        self.superlink()
        self.keys = [self.key(k) for k in range(parties)]
        for k, key in enumerate(self.keys):
            self.register(key)
            self.supernode(k)

    def superlink(self):
        self.start(
            "superlink", BIN / "flower-superlink",
            "--host", "127.0.0.1", "--port", self.port,
            "--ssl-certfile", self.folder / "server.pem", "--ssl-keyfile", self.folder / "server.key",
            "--ssl-ca-certfile", self.folder / "ca.crt", "--enable-supernode-auth",
            "--database", self.folder / "state.db",
        )  # fmt: skip
        self.wait(lambda: reachable(self.port), "superlink")

    def key(self, k):
        return node_key(self.folder / f"node-{k}")

    def register(self, key):
        self.flwr("supernode", "register", f"{key}.pub", "loop", "--format", "json")

    def supernode(self, k):
        """A party's node, started again whenever it ends, as systemd does."""
        node = [
            BIN / "flower-supernode", "--superlink", f"127.0.0.1:{self.port}",
            "--root-certificates", self.folder / "ca.crt", "--auth-supernode-private-key",
            self.keys[k], "--node-config", f"partition-id={k} num-partitions={len(self.keys)}",
            "--port", free_port(),
        ]  # fmt: skip
        command = shlex.join(map(str, node))
        self.start(f"node-{k}", "/bin/sh", "-c", f"while true; do {command}; sleep 2; done")

    def flwr(self, *arguments):
        done = subprocess.run(
            [str(BIN / "flwr"), *map(str, arguments)], env=self.env, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, **config):
        """Run the tests' app; its run's id."""
        self.server.mkdir(exist_ok=True)
        folders = {"server_folder": str(self.server), "party_folder": str(self.parties)}
        return self.submit(APP, **config, **folders)

    def submit(self, app, **config):
        """Submit an app, with names in the configuration as Python has them; its run's id."""
        given = " ".join(f"{k.replace('_', '-')}={json.dumps(v)}" for k, v in config.items())
        told = self.flwr("run", app, "loop", "-c", given, "--format", "json")
        return json.loads(told[told.index("{") :])["run-id"]

    def status(self, run):
        told = self.flwr("list", "--run-id", run, "loop", "--format", "json")
        return json.loads(told[told.index("{") :])["runs"][0]["status"]

    def said(self, run):
        """What the run's server has logged, in one line."""
        return " ".join(self.flwr("log", run, "loop", "--show").split())

    def rounds(self):
        """Rounds that the server has done and saved."""
        return rounds_saved(self.server / "checkpoint")

    def checkpoint(self):
        """What the server has saved last."""
        return load(self.server / "checkpoint")

    def kept(self, k, before=None):
        """What a party has on its disk."""
        (folder,) = filter(Path.is_dir, (self.parties / str(k) / "state").iterdir())
        return last_good(folder, before)

    def begun(self, k, round_):
        """Where a party's steps of a round have begun, once they have."""
        path = self.parties / str(k) / f"begun-{round_}"
        return np.array(json.loads(path.read_text())) if path.exists() else None

    def told(self, run, seconds=300):
        """What the server tells at the end of a run."""
        path = self.server / "told.json"
        self.wait(path.exists, "the run", seconds)
        self.wait(lambda: self.status(run) == "finished:completed", "the end of the run")
        return json.loads(path.read_text())

    def wait(self, ready, about, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if ready():
                return
            time.sleep(0.1)
        logs = "\n".join(f"== {p.name}\n{p.read_text()[-3000:]}" for p in self.folder.glob("*.log"))
        raise AssertionError(f"{about} took over {seconds} s\n{logs}")


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
