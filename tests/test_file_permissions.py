"""Models, keys, databases and state are readable by their owner only, whatever the umask."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedplus as fp
from command import fedplus
from fedplus._checkpoint_file import Checkpoint, save
from fedplus.simulation.store import PartyStore
from small_federation import CLASSIFIER, federation


@pytest.fixture(autouse=True)
def usual_umask():
    """Run with a umask that lets all users read new files."""
    previous = os.umask(0o022)
    yield
    os.umask(previous)


def accessible_to_others(folder: Path, allowed=()) -> dict[str, str]:
    """Return the paths in a folder that users other than the owner can access, with their modes."""
    paths = [folder, *folder.rglob("*")]
    modes = {p: stat.S_IMODE(p.stat().st_mode) for p in paths if not p.is_socket()}
    return {
        str(p.relative_to(folder)): oct(mode)
        for p, mode in modes.items()
        if mode & 0o077 and p.name not in allowed
    }


def test_checkpoints_and_stores_are_private(tmp_path):
    save(tmp_path / "new" / "checkpoint", Checkpoint(1, {}, {"w": np.zeros(2)}))
    PartyStore(tmp_path / "new" / "store" / "rows", 3, {"w": np.zeros(2)})
    fp.simulate(
        fp.presets.fedgeomed_plus(eta=0.05, sigma=1.0), federation(), CLASSIFIER, rounds=1, steps=1,
        batch_size=4, checkpoint=tmp_path / "new" / "run",
    )  # fmt: skip
    assert accessible_to_others(tmp_path / "new") == {}


def test_run_folders_are_private(tmp_path):
    """Reports and tables are shared files, but their folder is private."""
    fedplus(
        "run", "digits-robust", "-m", "fedavg", "--no-local", "--set", "parties=4",
        "--set", "steps=1", "--rounds", "2", "--out", "runs/one", cwd=tmp_path,
    )  # fmt: skip
    written = {p.name for p in (tmp_path / "runs").rglob("*")}
    assert {"rounds.jsonl", "status.json", "parties.json", "global.safetensors"} <= written
    shared = {"report.html", *(name for name in written if name.startswith("table."))}
    assert accessible_to_others(tmp_path / "runs", shared) == {}


def test_the_state_of_server_and_parties_is_private(tmp_path):
    pytest.importorskip("flwr")
    from fedplus.flower import FedPlus
    from linear_federation import make_grid, zeros

    method = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)
    FedPlus(method, rounds=2, folder=tmp_path / "d" / "server").run(
        make_grid(method, tmp_path / "d"), zeros()
    )
    assert accessible_to_others(tmp_path / "d") == {}


def test_keys_databases_and_logs_of_a_local_deployment_are_private(tmp_path):
    """Only public keys, certificates and the connection's configuration are shared."""
    pytest.importorskip("flwr")
    from fedplus.flower.local_deployment import LocalDeployment

    deployment = LocalDeployment(tmp_path, tmp_path / "deployment")
    try:
        deployment.start_superlink()
        deployment.register_key(0)
    finally:
        deployment.close()
    written = {p.name for p in deployment.folder.rglob("*")}
    assert {"superlink.db", "superlink.log", "node-0", "server.key"} <= written
    public = {"ca.crt", "server.pem", "node-0.pub", "config.toml"}
    assert accessible_to_others(deployment.folder, public) == {}


def test_a_new_app_is_readable_by_all_users(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "fedplus", "new", "meters", "--framework", "numpy"], cwd=tmp_path,
        check=True, capture_output=True,
    )  # fmt: skip
    assert stat.S_IMODE((tmp_path / "meters" / "pyproject.toml").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "meters").stat().st_mode) == 0o755
