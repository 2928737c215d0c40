"""A new app runs in Flower's simulation, and deployed by its own script, in real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import environment
from fedplus.flower.processes import free_port
from fedplus.new import write_app

BIN = Path(sys.executable).parent


@pytest.fixture
def app(tmp_path):
    write_app(tmp_path / "meters", "numpy")
    return tmp_path / "meters"


def scores(folder):
    """Return the parties' scores in each round."""
    lines = (folder / "meters" / "server" / "rounds.jsonl").read_text().splitlines()
    return [json.loads(line)["personal_score"] for line in lines]


def test_the_app_runs_in_flowers_simulation(app, tmp_path):
    pytest.importorskip("ray")
    state = tmp_path / "state"
    env = environment(
        FLWR_HOME=str(tmp_path / "flwr"), FLWR_TELEMETRY_ENABLED="0", FEDPLUS_STATE=str(state),
        FLWR_DISABLE_UPDATE_CHECK="1", FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION="1",
        FLWR_LOCAL_SUPERLINK_HTTP_API_PORT=str(free_port()),
        PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}",
    )  # fmt: skip
    command = [
        BIN / "flwr", "run", ".", "--stream", "-c", "rounds=3", "--federation-config",
        "num-supernodes=3",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=app, env=env, capture_output=True, text=True, check=False, timeout=400
        )
        scores_by_round = scores(state)
    finally:  # Flower leaves a server of its own running.
        subprocess.run(["pkill", "-f", str(tmp_path / "flwr")], check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(scores_by_round) == 3
    assert len(scores_by_round[-1]) == 3
    assert min(scores_by_round[-1]) > 0.5  # With ten classes, chance is 0.1.


@pytest.mark.long
def test_the_app_is_deployed_by_its_own_script_and_continues(app):
    for rounds in (2, 3):  # The second time it continues with the third round.
        command = [sys.executable, "deploy.py", "--rounds", str(rounds), "--parties", "2"]
        done = subprocess.run(
            command, cwd=app, env=environment(), capture_output=True, text=True, check=False,
            timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "finished:completed" in done.stdout
        assert len(scores(app / "deployment" / "state")) == rounds
