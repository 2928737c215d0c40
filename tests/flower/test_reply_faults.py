"""Malformed replies, false models and a full disk, in real processes."""

import contextlib
import subprocess

import numpy as np
import pytest
from app_deployment import run_in_process

from fedplus.experiments.run_folder import RunFolder
from fedplus.flower.local_deployment import CONNECTION

pytestmark = pytest.mark.long

REASONS = [
    "NaN or Inf", "NaN or Inf", "shape (2,), not (3,)", "float64", "missing parameters: weight",
    "unknown parameters: 'more'", "too large to square", "no arrays", "shape (30,), not (3,)",
]  # fmt: skip


def test_malformed_replies_are_dropped_with_a_reason_and_the_others_train(deployment, tmp_path):
    """Party 2 sends another malformed reply in each round."""
    deployment.start(parties=3)
    faulty = {"fault": "malformed", "faulty": 2}
    run = deployment.train(rounds=len(REASONS), deadline=90.0, **faulty)
    result, log = deployment.result(run, 600), deployment.server_log(run)
    assert (result["done"], result["skipped"]) == (len(REASONS), 0)
    assert [round_ for round_, _, _ in result["dropped"]] == list(range(1, len(REASONS) + 1))
    assert len({node for _, node, _ in result["dropped"]}) == 1
    for (round_, node, reason), expected in zip(result["dropped"], REASONS, strict=True):
        assert expected in reason
        assert f"Round {round_}: dropped the reply of node {node}: {reason}" in log
    expected = run_in_process(tmp_path / "here", rounds=len(REASONS), parties=3, **faulty)
    np.testing.assert_allclose(result["w_global"], expected.state.w_global, atol=1e-6)
    is_trained = np.abs(result["models"]).max(axis=1) > 0.1
    assert is_trained.tolist() == [True, True]  # No model of party 2 was ever accepted.


def test_a_lying_party_does_not_harm_the_honest_ones(deployment, tmp_path):
    """``test_byzantine.py`` tests all methods and lies in process."""
    deployment.start(parties=4)
    config = {"task": "digits", "fault": "flip", "faulty": 3}
    result = deployment.result(deployment.train(rounds=6, least=4, deadline=90.0, **config), 400)
    assert (result["done"], result["skipped"], result["dropped"]) == (6, 0, [])
    attacked = run_in_process(tmp_path / "a", rounds=6, parties=4, **config)
    np.testing.assert_allclose(result["w_global"], attacked.state.w_global, atol=1e-5)
    run_in_process(tmp_path / "h", rounds=6, parties=4, task="digits")
    deployed, in_process, honest = (
        scores(folder) for folder in (deployment.folder, tmp_path / "a", tmp_path / "h")
    )
    np.testing.assert_allclose(sorted(deployed), sorted(in_process), atol=0.01)
    assert abs(np.mean(in_process[:3]) - np.mean(honest[:3])) < 0.02


def scores(folder):
    return RunFolder(folder / "server").lines[-1]["personal_score"]


def test_a_full_disk_is_reported_and_the_others_continue(deployment):
    """The party keeps its last model, and continues with it when there is space again."""
    disk = deployment.parties / "1" / "state"
    disk.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        deployment.start(parties=2)
        run = deployment.train(rounds=60, least=1, pause=2.0, deadline=90.0)
        deployment.wait_until(
            lambda: deployment.round_start(1, 3) is not None, "the third round", 240
        )
        fill(disk / "ballast")
        rounds_before = deployment.rounds_done()
        deployment.wait_until(
            lambda: deployment.rounds_done() >= rounds_before + 3, "rounds on a full disk", 240
        )
        before = deployment.party_checkpoint(1)
        assert before.round in (rounds_before, rounds_before + 1)
        log = deployment.server_log(run)
        assert "No space left on device" in log
        assert f"Round {before.round + 1}: dropped the reply of node" in log
        (disk / "ballast").unlink()
        deployment.wait_until(
            lambda: deployment.party_checkpoint(1).round > before.round, "space again", 240
        )
        after = deployment.party_checkpoint(1).round
        np.testing.assert_allclose(deployment.round_start(1, after), before.arrays["w"])
        deployment.flwr("stop", run, CONNECTION)
        assert deployment.checkpoint().settings["skipped"] == 0
    finally:
        deployment.close()
        subprocess.run(["umount", str(disk)], check=True)


def fill(path):
    """Write a file until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)
