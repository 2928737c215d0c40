"""Replies that are malformed or lies, and a disk that is full, in real processes."""

import contextlib
import subprocess

import numpy as np
import pytest

from deployment import in_process
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower.local_deployment import CONNECTION

pytestmark = pytest.mark.long

REASONS = [
    "NaN or Inf", "NaN or Inf", "shape (2,), not (3,)", "float64", "missing parameters: weight",
    "unknown parameters: 'more'", "too large to square", "no arrays", "shape (30,), not (3,)",
]  # fmt: skip


def test_malformed_replies_are_dropped_with_a_reason_and_the_others_train(deployment, tmp_path):
    """Party 2 sends another one each round."""
    deployment.begin(parties=3)
    faulty = {"fault": "malformed", "faulty": 2}
    run = deployment.train(rounds=len(REASONS), deadline=90.0, **faulty)
    told, said = deployment.told(run, 600), deployment.said(run)
    assert (told["done"], told["skipped"]) == (len(REASONS), 0)
    assert [round_ for round_, _, _ in told["dropped"]] == list(range(1, len(REASONS) + 1))
    assert len({node for _, node, _ in told["dropped"]}) == 1
    for (round_, node, reason), expected in zip(told["dropped"], REASONS, strict=True):
        assert expected in reason
        assert f"Round {round_}: dropped the reply of node {node}: {reason}" in said
    expected = in_process(tmp_path / "here", rounds=len(REASONS), parties=3, **faulty)
    np.testing.assert_allclose(told["w_global"], expected.state.w_global, atol=1e-6)
    trained = np.abs(told["models"]).max(axis=1) > 0.1
    assert trained.tolist() == [True, True]  # Party 2 has never sent a model that was taken.


def test_a_party_that_lies_does_not_harm_the_honest_ones(deployment, tmp_path):
    """As in ``test_byzantine.py``, which has all methods and lies in process."""
    deployment.begin(parties=4)
    config = {"task": "digits", "fault": "flip", "faulty": 3}
    told = deployment.told(deployment.train(rounds=6, least=4, deadline=90.0, **config), 400)
    assert (told["done"], told["skipped"], told["dropped"]) == (6, 0, [])
    attacked = in_process(tmp_path / "a", rounds=6, parties=4, **config)
    np.testing.assert_allclose(told["w_global"], attacked.state.w_global, atol=1e-5)
    in_process(tmp_path / "h", rounds=6, parties=4, task="digits")
    seen, same, honest = (
        scores(folder) for folder in (deployment.folder, tmp_path / "a", tmp_path / "h")
    )
    np.testing.assert_allclose(sorted(seen), sorted(same), atol=0.01)
    assert abs(np.mean(same[:3]) - np.mean(honest[:3])) < 0.02


def scores(folder):
    return RunFolder(folder / "server").lines[-1]["personal_score"]


def test_a_full_disk_is_told_and_the_others_go_on(deployment):
    """The party keeps its last model, and goes on from it once there is space."""
    disk = deployment.parties / "1" / "state"
    disk.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        deployment.begin(parties=2)
        run = deployment.train(rounds=60, least=1, pause=2.0, deadline=90.0)
        deployment.wait(lambda: deployment.begun(1, 3) is not None, "the third round", 240)
        fill(disk / "ballast")
        full = deployment.rounds()
        deployment.wait(lambda: deployment.rounds() >= full + 3, "rounds on a full disk", 240)
        kept = deployment.kept(1)
        assert kept.round in (full, full + 1)
        said = deployment.said(run)
        assert "No space left on device" in said
        assert f"Round {kept.round + 1}: dropped the reply of node" in said
        (disk / "ballast").unlink()
        deployment.wait(lambda: deployment.kept(1).round > kept.round, "space again", 240)
        after = deployment.kept(1).round
        np.testing.assert_allclose(deployment.begun(1, after), kept.arrays["w"])
        deployment.flwr("stop", run, CONNECTION)
        assert deployment.checkpoint().settings["skipped"] == 0
    finally:
        deployment.close()
        subprocess.run(["umount", str(disk)], check=True)


def fill(path):
    """Until there is no byte left."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)
