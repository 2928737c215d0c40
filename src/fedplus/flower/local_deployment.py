"""Deploys a Flower app on this machine with TLS and keys: SuperLink and SuperNodes as processes."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.common.constant import PUBLIC_KEY_ALREADY_IN_USE_MESSAGE

from fedplus.files import PRIVATE, make_folder
from fedplus.flower.access import can_identify_users
from fedplus.flower.app_pinning import app_hash
from fedplus.flower.certificates import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    public_key_path,
    write_certificates,
    write_key,
)  # fmt: skip
from fedplus.flower.processes import HOST, descendants, free_port, is_listening, kill, terminate

CONNECTION = "here"
"""The name of this deployment's connection in the configuration of the ``flwr`` command."""
COMPLETED = "finished:completed"
UMASK = 0o077
"""File mode mask of all processes: databases and logs are readable by their owner only."""
BIN = Path(sys.executable).parent
COMMANDS = (sys.executable, "-m", "fedplus.flower.commands")
"""The commands that run Flower's SuperLink and SuperNode with access control."""
ANY_USER = () if can_identify_users() else ("--allow-any-user",)
"""An option for systems that cannot identify the user of a local connection."""


class LocalDeployment:
    """Starts and stops the processes of a deployment, and gives access to their logs.

    Args:
        app: The folder of a Flower app.
        folder: The folder for certificates, keys, logs, Flower's database and the models (``state``).
            Existing files are used again, so that a deployment continues where it stopped. Only the
            owner can read the folder.
        environment: Additional environment variables for all processes.
        apps: Further apps that parties may run. All others are refused.
    """

    def __init__(
        self, app: Path, folder: Path, environment: Mapping[str, str] | None = None,
        apps: Sequence[Path] = (),
    ) -> None:  # fmt: skip
        self.app, self.folder, self.apps = app.resolve(), folder.resolve(), (app, *apps)
        self.port = free_port()
        self.runtime_ports: dict[int, int] = {}
        """The port on which each party's own processes reach its SuperNode."""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ, "FLWR_HOME": str(self.folder / "flwr"), "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FEDPLUS_STATE": str(self.folder / "state"),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **(environment or {}),
        }  # fmt: skip
        make_folder(self.folder / "flwr")
        self.folder.chmod(0o700)
        if not (self.folder / AUTHORITY).exists():
            write_certificates(self.folder, ["localhost", HOST])
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n[superlink.{CONNECTION}]\n'
            f'address = "{HOST}:{self.port}"\n'
            f"root-certificates = {json.dumps(str(self.folder / AUTHORITY))}\n"
        )

    def start_superlink(self) -> None:
        """Start the server's SuperLink and wait until it accepts connections.

        Raises:
            RuntimeError: The process has ended; the message shows the end of its log.
        """
        self.start_process(
            "superlink", *COMMANDS, "superlink", *ANY_USER, "--host", HOST, "--port", self.port,
            "--ssl-certfile", self.folder / CERTIFICATE, "--ssl-keyfile", self.folder / KEY,
            "--ssl-ca-certfile", self.folder / AUTHORITY, "--enable-supernode-auth",
            "--database", self.folder / "superlink.db",
        )  # fmt: skip
        process = self.processes["superlink"]
        self.wait_until(
            lambda: is_listening(self.port) or process.poll() is not None, "the SuperLink"
        )
        if process.poll() is not None:
            raise RuntimeError(f"the SuperLink ended: {self.read_log('superlink')[-2000:]}")

    def register_key(self, k: int) -> Path:
        """Register a party's key with the running SuperLink and return its path.

        The key is created if there is none yet.
        """
        path = self.folder / f"node-{k}"
        if not path.exists():
            write_key(path)
        try:
            self.flwr("supernode", "register", public_key_path(path), CONNECTION)
        except RuntimeError as error:
            if PUBLIC_KEY_ALREADY_IN_USE_MESSAGE.lower() not in str(error).lower():
                raise
        return path

    def start_supernode(self, k: int, key: Path, port: int | None = None, **config: Any) -> None:
        """Start a party's SuperNode, and restart it whenever it ends, as systemd does.

        It runs this deployment's apps with their present code, and refuses all others.

        Args:
            k: The party's ``partition-id``.
            key: The party's private key.
            port: The port of the server; by default the SuperLink's own.
            config: Further entries of the node configuration, with ``_`` for ``-`` in their names.
        """
        self.runtime_ports[k] = free_port()
        pins = [option for app in self.apps for option in ("--app-hash", app_hash(app))]
        supernode = [
            *COMMANDS, "supernode", *pins, *ANY_USER, "--superlink", f"{HOST}:{port or self.port}",
            "--root-certificates", self.folder / AUTHORITY, "--auth-supernode-private-key", key,
            "--node-config", _format_config({"partition_id": k, **config}),
            "--port", self.runtime_ports[k],
        ]  # fmt: skip
        command = shlex.join(map(str, supernode))
        loop = f"while true; do {command}; sleep 2; done"
        self.start_process(f"node-{k}", "/bin/sh", "-c", loop)

    def submit(self, app: Path | None = None, **config: Any) -> str:
        """Submit a run and return its id.

        Args:
            app: The folder of the app; by default this deployment's first app.
            config: The run configuration, with ``_`` for ``-`` in its names.
        """
        options = ("-c", _format_config(config)) if config else ()
        return str(self._flwr_json("run", app or self.app, CONNECTION, *options)["run-id"])

    def status(self, run: str) -> str:
        """Return the status of a run, such as ``finished:completed``."""
        return str(self._flwr_json("list", "--run-id", run, CONNECTION)["runs"][0]["status"])

    def _flwr_json(self, *arguments: Any) -> Any:
        """Run the ``flwr`` command and return its JSON output; it may fail with exit status 0."""
        output = self.flwr(*arguments, "--format", "json")
        answer = json.loads(output[output.index("{") :])
        if not answer.get("success"):
            raise RuntimeError(f"flwr {arguments[0]} failed: {output}")
        return answer

    def stream_log(self, run: str) -> str:
        """Print the server's log until the run has ended, and return the run's final status."""
        subprocess.run(
            [str(BIN / "flwr"), "log", run, CONNECTION, "--stream"], env=self.environment,
            check=False,
        )  # fmt: skip
        self.wait_until(lambda: self.status(run).startswith("finished"), "the end of the run")
        return self.status(run)

    def flwr(self, *arguments: Any) -> str:
        """Run the ``flwr`` command and return its output.

        Raises:
            RuntimeError: The command fails; the message shows its output.
        """
        done = subprocess.run(
            [str(BIN / "flwr"), *map(str, arguments)], env=self.environment, capture_output=True,
            text=True, timeout=120, check=False, umask=UMASK,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"flwr {arguments[0]} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def start_process(self, name: str, *command: Any) -> None:
        """Start a process whose output goes to a log file of that name."""
        path = self.folder / f"{name}.log"
        with open(path, "ab", opener=lambda p, flags: os.open(p, flags, PRIVATE)) as log:
            self.processes[name] = subprocess.Popen(
                [*map(str, command)], env=self.environment, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True, umask=UMASK,
            )  # fmt: skip

    def read_log(self, name: str) -> str:
        """Return the output of a process so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        """Send SIGKILL to a process and all its descendants."""
        process = self.processes.pop(name)
        kill([process.pid, *descendants(process.pid)])
        process.wait()

    def stop(self, name: str) -> None:
        """Terminate a process and its descendants; they get some time to sign off from Flower."""
        process = self.processes.pop(name)
        terminate([process.pid, *descendants(process.pid)])
        process.wait()

    def close(self) -> None:
        """Stop all processes, the parties first."""
        for name in sorted(self.processes):
            self.stop(name)

    def wait_until(
        self, condition: Callable[[], Any], description: str, seconds: float = 120
    ) -> None:
        """Wait until a condition holds.

        Args:
            condition: Returns whether the waiting is over.
            description: What is waited for, for the error message.
            seconds: The longest time to wait.

        Raises:
            TimeoutError: The condition does not hold in time; the message shows the ends of all logs.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                paths = sorted(self.folder.glob("*.log"))
                logs = (f"== {path.name}\n{path.read_text()[-3000:]}" for path in paths)
                raise TimeoutError("\n".join([f"{description} took over {seconds:g} s", *logs]))
            time.sleep(0.3)


@contextlib.contextmanager
def deploy_locally(
    app: Path, folder: Path, parties: int, **config: Any
) -> Iterator[LocalDeployment]:
    """Run the server and all parties of an app on this machine within a ``with`` block.

    Args:
        app: The folder of a Flower app.
        folder: The folder for certificates, keys, logs and models.
        parties: The number of parties.
        config: The nodes' configuration besides ``partition-id`` and ``num-partitions``.

    Returns:
        A context manager that yields the running deployment, and ends its processes at the end.
    """
    deployment = LocalDeployment(app, folder)
    try:
        deployment.start_superlink()
        for k in range(parties):
            key = deployment.register_key(k)
            deployment.start_supernode(k, key, num_partitions=parties, **config)
        yield deployment
    finally:
        deployment.close()


def _format_config(config: Mapping[str, Any]) -> str:
    """Return a configuration as Flower's commands accept it."""
    return " ".join(f"{n.replace('_', '-')}={json.dumps(v)}" for n, v in config.items())
