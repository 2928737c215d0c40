"""A real deployment on this machine: a SuperLink and SuperNodes with TLS and keys, each a process."""

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
from fedplus.flower.certificates import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    public_key_path,
    write_certificates,
    write_key,
)  # fmt: skip
from fedplus.flower.pinning import app_hash
from fedplus.flower.processes import HOST, descendants, free_port, is_listening, kill, terminate

CONNECTION = "here"
"""How the ``flwr`` command calls this deployment."""
COMPLETED = "finished:completed"
UMASK = 0o077
"""File mode mask of all processes: databases and logs are readable by their owner only."""
BIN = Path(sys.executable).parent
COMMANDS = (sys.executable, "-m", "fedplus.flower.commands")
"""Flower's SuperLink and SuperNode, protected."""
ANY_USER = () if can_identify_users() else ("--allow-any-user",)
"""For systems on which other users of the machine cannot be told apart."""


class LocalDeployment:
    """Starts and stops the processes, and keeps what they write.

    Args:
        app: The folder of a Flower app.
        folder: For certificates, keys, logs, Flower's database and the models (``state``). What is
            there is used again, so that a deployment goes on where it was. Only its owner can read it.
        extra: Environment variables for all processes.
        apps: Further apps that parties may run. All others are refused.
    """

    def __init__(
        self, app: Path, folder: Path, extra: Mapping[str, str] | None = None,
        apps: Sequence[Path] = (),
    ) -> None:  # fmt: skip
        self.app, self.folder, self.apps = app.resolve(), folder.resolve(), (app, *apps)
        self.port = free_port()
        self.runtime_ports: dict[int, int] = {}
        """Where each party's own processes reach its SuperNode."""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ, "FLWR_HOME": str(self.folder / "flwr"), "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FEDPLUS_STATE": str(self.folder / "state"),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **(extra or {}),
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

    def superlink(self) -> None:
        """Start the server's SuperLink and wait until it answers."""
        self.start(
            "superlink", *COMMANDS, "superlink", *ANY_USER, "--host", HOST, "--port", self.port,
            "--ssl-certfile", self.folder / CERTIFICATE, "--ssl-keyfile", self.folder / KEY,
            "--ssl-ca-certfile", self.folder / AUTHORITY, "--enable-supernode-auth",
            "--database", self.folder / "superlink.db",
        )  # fmt: skip
        process = self.processes["superlink"]
        self.wait(lambda: is_listening(self.port) or process.poll() is not None, "the SuperLink")
        if process.poll() is not None:
            raise RuntimeError(f"the SuperLink ended: {self.log('superlink')[-2000:]}")

    def key(self, k: int) -> Path:
        """A party's key, registered with the SuperLink, which must run."""
        path = self.folder / f"node-{k}"
        if not path.exists():
            write_key(path)
        try:
            self.flwr("supernode", "register", public_key_path(path), CONNECTION)
        except RuntimeError as error:
            if PUBLIC_KEY_ALREADY_IN_USE_MESSAGE.lower() not in str(error).lower():
                raise
        return path

    def supernode(self, k: int, key: Path, port: int | None = None, **config: Any) -> None:
        """Start a party's SuperNode, and start it again whenever it ends, as systemd would.

        It runs this deployment's apps as they are now, and refuses all others.

        Args:
            k: Its ``partition-id``.
            key: Its private key.
            port: Where it finds the server; by default the SuperLink's own.
            config: The rest of its node configuration.
        """
        self.runtime_ports[k] = free_port()
        pins = [word for app in self.apps for word in ("--app-hash", app_hash(app))]
        node = [
            *COMMANDS, "supernode", *pins, *ANY_USER, "--superlink", f"{HOST}:{port or self.port}",
            "--root-certificates", self.folder / AUTHORITY, "--auth-supernode-private-key", key,
            "--node-config", _values({"partition_id": k, **config}),
            "--port", self.runtime_ports[k],
        ]  # fmt: skip
        command = shlex.join(map(str, node))
        self.start(f"node-{k}", "/bin/sh", "-c", f"while true; do {command}; sleep 2; done")

    def run(self, **config: Any) -> str:
        """Submit the app with this run configuration, ``_`` for ``-`` in names; the run's id."""
        return self.submit(self.app, **config)

    def submit(self, app: Path, **config: Any) -> str:
        """The same for another app."""
        given = ("-c", _values(config)) if config else ()
        return str(self._told("run", app, CONNECTION, *given)["run-id"])

    def status(self, run: str) -> str:
        """Of a run, e.g. ``finished:completed``."""
        return str(self._told("list", "--run-id", run, CONNECTION)["runs"][0]["status"])

    def _told(self, *arguments: Any) -> Any:
        """What Flower's command answers in JSON; it may tell of failure with exit status 0."""
        said = self.flwr(*arguments, "--format", "json")
        told = json.loads(said[said.index("{") :])
        if not told.get("success"):
            raise RuntimeError(f"flwr {arguments[0]} failed: {said}")
        return told

    def followed(self, run: str) -> str:
        """Show the server's log until the run has ended; its status then."""
        subprocess.run(
            [str(BIN / "flwr"), "log", run, CONNECTION, "--stream"], env=self.environment,
            check=False,
        )  # fmt: skip
        self.wait(lambda: self.status(run).startswith("finished"), "the end of the run")
        return self.status(run)

    def flwr(self, *arguments: Any) -> str:
        """Flower's command; what it says."""
        done = subprocess.run(
            [str(BIN / "flwr"), *map(str, arguments)], env=self.environment, capture_output=True,
            text=True, timeout=120, check=False, umask=UMASK,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"flwr {arguments[0]} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self, name: str, *command: Any) -> None:
        """Start a process; what it writes goes to a log of that name."""
        path = self.folder / f"{name}.log"
        with open(path, "ab", opener=lambda p, flags: os.open(p, flags, PRIVATE)) as log:
            self.processes[name] = subprocess.Popen(
                [*map(str, command)], env=self.environment, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True, umask=UMASK,
            )  # fmt: skip

    def log(self, name: str) -> str:
        """What a process has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        """SIGKILL to a process and all that it has started."""
        process = self.processes.pop(name)
        kill([process.pid, *descendants(process.pid)])
        process.wait()

    def stop(self, name: str) -> None:
        """End a process and all that it has started, with the time to say good-bye to Flower."""
        process = self.processes.pop(name)
        terminate([process.pid, *descendants(process.pid)])
        process.wait()

    def close(self) -> None:
        """End all processes, the parties first."""
        for name in sorted(self.processes):
            self.stop(name)

    def wait(self, ready: Callable[[], Any], about: str, seconds: float = 120) -> None:
        """Wait until something is so.

        Raises:
            TimeoutError: It is not, with the ends of all logs.
        """
        last = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > last:
                logs = (f"== {path.name}\n{path.read_text()[-3000:]}" for path in self._logs())
                raise TimeoutError("\n".join([f"{about} took over {seconds:g} s", *logs]))
            time.sleep(0.3)

    def _logs(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))


@contextlib.contextmanager
def deploy_locally(
    app: Path, folder: Path, parties: int, **config: Any
) -> Iterator[LocalDeployment]:
    """The app on this machine, everything started; it is stopped at the end.

    Args:
        app: The folder of a Flower app.
        folder: Where certificates, keys, logs and models are kept.
        parties: How many.
        config: The nodes' configuration, beside ``partition-id`` and ``num-partitions``.
    """
    made = LocalDeployment(app, folder)
    try:
        made.superlink()
        for k in range(parties):
            made.supernode(k, made.key(k), num_partitions=parties, **config)
        yield made
    finally:
        made.close()


def _values(config: Mapping[str, Any]) -> str:
    """As Flower's commands take them."""
    return " ".join(f"{n.replace('_', '-')}={json.dumps(v)}" for n, v in config.items())
