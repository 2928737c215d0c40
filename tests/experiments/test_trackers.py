"""Trackers, tested with real TensorBoard and MLflow."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from command import environment, fedplus, refused
from fedplus.experiments import trackers
from fedplus.experiments.run_folder import RunFolder

ARGUMENTS = [
    "run", "digits-robust", "-m", "fedavg+", "--no-local", "--set", "parties=3", "--rounds", "6",
    "--set", "evaluate_every=2", "--set", "checkpoint_every=2",
]  # fmt: skip


def mean_scores(folder):
    return {line["round"]: line["personal"]["mean"] for line in RunFolder(folder).lines}


def kill_and_resume(folder, tracker):
    """Resume a run as if it had been killed after round 4, before its last checkpoint."""
    last = sorted((folder / "checkpoint").iterdir())[-1]
    last.unlink()
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps(status | {"state": "running"}))
    fedplus("run", "--resume", folder, "--track", tracker)


@pytest.mark.slow  # It needs what only make test-all installs.
def test_tensorboard_shows_the_curves_of_a_resumed_run(tmp_path):
    folder = tmp_path / "run"
    fedplus(*ARGUMENTS, "--out", folder, "--track", "tensorboard")
    kill_and_resume(folder, "tensorboard")
    with socket.socket() as free_port:
        free_port.bind(("127.0.0.1", 0))
        port = free_port.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", str(port),
         "--load_fast=false"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}/data/plugin/scalars"
        points = _get_json(f"{address}/scalars?run=tensorboard&tag=personal%2Fmean", server)
        assert {step: value for _, step, value in points} == pytest.approx(mean_scores(folder))
        assert len(points) == 3
        tags = _get_json(f"{address}/tags", server)["tensorboard"]
        assert {"personal/worst", "global/mean", "party/0", "aggregation/iterations"} <= set(tags)
    finally:
        server.send_signal(signal.SIGKILL)
        server.communicate()


def _get_json(address, server, seconds=90):
    """Return the first non-empty JSON answer of a server that is starting."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert server.poll() is None, server.stdout.read().decode()
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5) as reply:
            content = json.load(reply)
            if content:
                return content
        time.sleep(0.3)
    raise AssertionError(f"no content at {address}")


@pytest.mark.slow  # It needs what only make test-all installs.
def test_mlflow_stores_a_resumed_run_in_sqlite(tmp_path):
    folder = tmp_path / "run"
    fedplus(*ARGUMENTS, "--out", folder, "--track", "mlflow")
    kill_and_resume(folder, "mlflow")
    assert (tmp_path / "mlflow.db").read_bytes().startswith(b"SQLite format 3")
    program = (
        "import json, sys, mlflow\n"
        "client = mlflow.MlflowClient(sys.argv[1])\n"
        "experiment = client.get_experiment_by_name('digits-robust')\n"
        "run, = client.search_runs([experiment.experiment_id])\n"
        "history = client.get_metric_history(run.info.run_id, 'personal/mean')\n"
        "print(json.dumps([run.info.status, run.info.run_name, run.data.params,"
        " [[m.step, m.value] for m in history]]))\n"
    )
    database = f"sqlite:///{tmp_path / 'mlflow.db'}"
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, database],
        capture_output=True, text=True, env=environment(), check=True,
    )  # fmt: skip
    status, name, params, history = json.loads(process.stdout.strip().splitlines()[-1])
    assert status == "FINISHED"
    assert name == "FedAvg+ seed 0"
    assert params["method.eta"] == "0.02"
    assert params["rounds"] == "6"
    assert len(history) == 3
    assert dict(map(tuple, history)) == pytest.approx(mean_scores(folder))


def test_an_installed_package_can_provide_a_tracker(tmp_path):
    """The tracker is found through the package's entry point."""
    package = tmp_path / "site"
    info = package / "mine-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fedplus.trackers]\nmine = mine:Mine\n")
    (package / "mine.py").write_text(
        "class Mine:\n"
        "    def __init__(self, folder, spec):\n"
        "        self.file = folder / 'mine.txt'\n"
        "    def observe(self, line):\n"
        "        with self.file.open('a') as file: print(line['round'], file=file)\n"
        "    def finish(self, state):\n"
        "        with self.file.open('a') as file: print(state, file=file)\n"
    )
    fedplus(*ARGUMENTS, "--out", tmp_path / "run", "--track", "mine", PYTHONPATH=str(package))
    assert (tmp_path / "run" / "mine.txt").read_text().split() == ["2", "4", "6", "finished"]


@pytest.mark.parametrize(
    ("error", "state"), [(None, "finished"), (KeyboardInterrupt, "stopped"), (OSError, "failed")]
)
def test_trackers_get_the_state_that_the_run_ends_with(tmp_path, monkeypatch, error, state):
    states = []

    class Recorder:
        def __init__(self, folder, spec):
            pass

        def finish(self, state):
            states.append(state)

    monkeypatch.setattr(trackers, "lookup_tracker", lambda name: Recorder)
    with (
        pytest.raises(error) if error else contextlib.nullcontext(),
        trackers.run_trackers(["recorder"], tmp_path, None),
    ):
        if error:
            raise error
    assert states == [state]


def test_an_unknown_tracker_is_rejected_before_training(tmp_path):
    message = refused(*ARGUMENTS, "--out", tmp_path / "run", "--track", "mlfow")
    assert "Did you mean mlflow?" in message
    assert not (tmp_path / "run").exists()
