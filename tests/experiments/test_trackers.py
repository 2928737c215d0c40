"""Trackers, each against the real thing."""

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
from fedplus.experiments.run_folder import RunFolder

ARGUMENTS = [
    "run", "digits-robust", "-m", "fedavg+", "--no-local", "--set", "parties=3", "--rounds", "6",
    "--set", "evaluate_every=2", "--set", "checkpoint_every=2",
]  # fmt: skip


def means(folder):
    return {line["round"]: line["personal"]["mean"] for line in RunFolder(folder).lines}


def gone_on(folder, tracker):
    """As a run that was killed after round 4 goes on: its last checkpoint is gone."""
    last = sorted((folder / "checkpoint").iterdir())[-1]
    last.unlink()
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps(status | {"state": "running"}))
    fedplus("run", "--resume", folder, "--track", tracker)


def test_tensorboard_shows_the_curves(tmp_path):
    folder = tmp_path / "run"
    fedplus(*ARGUMENTS, "--out", folder, "--track", "tensorboard")
    gone_on(folder, "tensorboard")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", str(port),
         "--load_fast=false"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}/data/plugin/scalars"
        found = _asked(f"{address}/scalars?run=tensorboard&tag=personal%2Fmean", server)
        assert {step: value for _, step, value in found} == pytest.approx(means(folder))
        assert len(found) == 3
        tags = _asked(f"{address}/tags", server)["tensorboard"]
        assert {"personal/worst", "global/mean", "party/0", "aggregation/iterations"} <= set(tags)
    finally:
        server.send_signal(signal.SIGKILL)
        server.communicate()


def _asked(address, server, seconds=90):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert server.poll() is None, server.stdout.read().decode()
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5) as reply:
            found = json.load(reply)
            if found:
                return found
        time.sleep(0.3)
    raise AssertionError(f"nothing at {address}")


def test_mlflow_keeps_the_run_in_sqlite(tmp_path):
    folder = tmp_path / "run"
    fedplus(*ARGUMENTS, "--out", folder, "--track", "mlflow")
    gone_on(folder, "mlflow")
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
    asked = [sys.executable, "-W", "ignore", "-c", program, f"sqlite:///{tmp_path / 'mlflow.db'}"]
    done = subprocess.run(asked, capture_output=True, text=True, env=environment(), check=True)
    status, name, params, history = json.loads(done.stdout.strip().splitlines()[-1])
    assert status == "FINISHED"
    assert name == "FedAvg+ seed 0"
    assert params["method.eta"] == "0.02"
    assert params["rounds"] == "6"
    assert len(history) == 3
    assert dict(map(tuple, history)) == pytest.approx(means(folder))


def test_another_package_may_bring_one(tmp_path):
    """By an entry point, as an installed package has it."""
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


def test_a_tracker_that_is_not_there_is_refused_before_anything_is_trained(tmp_path):
    said = refused(*ARGUMENTS, "--out", tmp_path / "run", "--track", "mlfow")
    assert "Did you mean mlflow?" in said
    assert not (tmp_path / "run").exists()
