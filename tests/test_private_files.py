"""Models, keys, databases and state can be read by their owner only, whatever the umask."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedplus as fp
from command import fedplus
from fedplus._checkpoint import Checkpoint, save
from fedplus.simulation.store import PartyStore
from small_federation import CLASSIFIER, federation


@pytest.fixture(autouse=True)
def everybody_may_read():
    """Run with the usual umask."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path, allowed=()) -> dict[str, str]:
    """Return what in a folder somebody else than its owner can use, with its mode."""
    found = [folder, *folder.rglob("*")]
    modes = {p: stat.S_IMODE(p.stat().st_mode) for p in found if not p.is_socket()}
    return {
        str(p.relative_to(folder)): oct(mode)
        for p, mode in modes.items()
        if mode & 0o077 and p.name not in allowed
    }


def test_checkpoints_and_stores(tmp_path):
    save(tmp_path / "new" / "checkpoint", Checkpoint(1, {}, {"w": np.zeros(2)}))
    PartyStore(tmp_path / "new" / "store" / "rows", 3, {"w": np.zeros(2)})
    fp.simulate(
        fp.presets.fedgeomed_plus(eta=0.05, sigma=1.0), federation(), CLASSIFIER, rounds=1, steps=1,
        batch_size=4, checkpoint=tmp_path / "new" / "run",
    )  # fmt: skip
    assert open_to_others(tmp_path / "new") == {}


def test_run_folders(tmp_path):
    """Reports and tables are for others, too: the folder that they are in is not."""
    fedplus(
        "run", "digits-robust", "-m", "fedavg", "--no-local", "--set", "parties=4",
        "--set", "steps=1", "--rounds", "2", "--out", "runs/one", cwd=tmp_path,
    )  # fmt: skip
    written = {p.name for p in (tmp_path / "runs").rglob("*")}
    assert {"rounds.jsonl", "status.json", "parties.json", "global.safetensors"} <= written
    shared = {"report.html", *(name for name in written if name.startswith("table."))}
    assert open_to_others(tmp_path / "runs", shared) == {}


def test_the_server_and_the_parties_of_a_deployment(tmp_path):
    pytest.importorskip("flwr")
    sys.path.insert(0, str(Path(__file__).parent / "flower"))
    try:
        from deployed import grid_of, zeros
    finally:
        sys.path.pop(0)
    from fedplus.flower import FedPlus

    method = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)
    FedPlus(method, rounds=2, folder=tmp_path / "d" / "server").run(
        grid_of(method, tmp_path / "d"), zeros()
    )
    assert open_to_others(tmp_path / "d") == {}


def test_processes_databases_and_logs_of_a_local_deployment(tmp_path):
    """The public halves of keys and certificates are for others, too."""
    pytest.importorskip("flwr")
    from fedplus.flower.local_deployment import LocalDeployment

    here = LocalDeployment(tmp_path, tmp_path / "deployment")
    try:
        here.superlink()
        here.key(0)
    finally:
        here.close()
    written = {p.name for p in here.folder.rglob("*")}
    assert {"superlink.db", "superlink.log", "node-0", "server.key"} <= written
    public = {"ca.crt", "server.pem", "node-0.pub", "config.toml"}
    assert open_to_others(here.folder, public) == {}


def test_a_new_app_is_code_for_everybody(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "fedplus", "new", "meters", "--framework", "numpy"], cwd=tmp_path,
        check=True, capture_output=True,
    )  # fmt: skip
    assert stat.S_IMODE((tmp_path / "meters" / "pyproject.toml").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "meters").stat().st_mode) == 0o755
