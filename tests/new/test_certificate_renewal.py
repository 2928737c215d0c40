"""Parties stay connected when certificates are renewed as in docs/deployment.md; real processes."""

import shutil
import subprocess
import sys

import pytest

from command import environment
from fedplus.flower.local_deployment import COMPLETED, LocalDeployment
from fedplus.flower.processes import command_line, descendants
from fedplus.new import write_app

PARTIES = 2


@pytest.fixture
def app(tmp_path):
    write_app(tmp_path / "meters", "numpy")
    return tmp_path / "meters"


def make_certificates(app, *options):
    subprocess.run(
        [sys.executable, "certificates.py", "server.example.org", *options], cwd=app,
        env=environment(), check=True, capture_output=True,
    )  # fmt: skip


def supernodes(deployment):
    """Return the process ids of the parties' SuperNodes."""
    return [
        pid for k in range(PARTIES) for pid in descendants(deployment.processes[f"node-{k}"].pid)
        if "--superlink" in command_line(pid)
        and "/bin/sh" not in command_line(pid)
    ]  # fmt: skip


@pytest.mark.long
def test_parties_stay_connected_when_certificates_are_renewed(app, tmp_path):
    make_certificates(app, "--parties", str(PARTIES))
    folder = tmp_path / "deployment"
    shutil.copytree(app / "certificates", folder)
    deployment = LocalDeployment(app, folder, {"JAX_PLATFORMS": "cpu"})
    try:
        deployment.start_superlink()
        keys = [deployment.register_key(k) for k in range(PARTIES)]
        for k in range(PARTIES):
            deployment.start_supernode(k, keys[k], num_partitions=PARTIES)
        train(deployment, rounds=1)

        make_certificates(app, "--parties", "0", "--folder", "certificates-2")  # Step 1.
        both = [app / name / "ca.crt" for name in ("certificates", "certificates-2")]
        (folder / "ca.crt").write_bytes(b"".join(path.read_bytes() for path in both))  # Step 2.
        for k in range(PARTIES):
            deployment.stop(f"node-{k}")
            deployment.start_supernode(k, keys[k], num_partitions=PARTIES)
        train(deployment, rounds=2)
        before = supernodes(deployment)

        for name in ("server.pem", "server.key"):  # Step 3.
            shutil.copy(app / "certificates-2" / name, folder / name)
        deployment.stop("superlink")
        deployment.start_superlink()
        train(deployment, rounds=3)
        assert supernodes(deployment) == before  # The parties were not restarted.
        assert len(before) == PARTIES
    finally:
        deployment.close()


def train(deployment, rounds):
    """Continue until this number of rounds is done in all, each with every party."""
    run = deployment.submit(rounds=rounds, least=PARTIES)
    deployment.wait_until(lambda: deployment.status(run).startswith("finished"), "the run", 500)
    assert deployment.status(run) == COMPLETED
    server = deployment.folder / "state" / "meters" / "server"
    assert len((server / "rounds.jsonl").read_text().splitlines()) == rounds
