"""Parties that are killed, late or disconnected, in real processes."""

import numpy as np
import pytest
from app_deployment import run_in_process

from fedplus.experiments.run_folder import RunFolder
from fedplus.flower.local_deployment import CONNECTION

pytestmark = pytest.mark.long


def test_a_party_killed_during_its_steps_continues_with_its_own_model(deployment):
    deployment.start(parties=3)
    run = deployment.train(rounds=60, least=1, pause=6.0, deadline=45.0)
    deployment.wait_until(lambda: deployment.round_start(1, 3) is not None, "the third round", 240)
    deployment.crash("node-1")
    checkpoint = deployment.party_checkpoint(1)
    assert checkpoint.round == 2  # It was killed during its steps of round 3.

    def rounds_since_kill():
        return [t for t in range(4, 61) if deployment.round_start(1, t) is not None]

    deployment.wait_until(rounds_since_kill, "the killed party", 300)
    first = min(rounds_since_kill())
    np.testing.assert_allclose(deployment.round_start(1, first), checkpoint.arrays["w"])
    for k in (0, 2):  # The others have continued.
        assert all(deployment.round_start(k, t) is not None for t in range(1, first))
    deployment.wait_until(lambda: deployment.rounds_done() >= first, "the party's next round")
    deployment.flwr("stop", run, CONNECTION)
    saved = deployment.checkpoint()
    assert saved.settings["skipped"] == 0
    own = deployment.party_checkpoint(1, before=saved.round + 1).arrays["w"]
    assert (np.abs(saved.arrays["models"] - own).max(axis=1) < 1e-6).any()


def test_a_late_model_is_not_used_in_another_round(deployment, tmp_path):
    """Party 1 is late in round 2. The result is the same as if that reply were lost."""
    deployment.start(parties=2)
    late = {"fault": "late", "faulty": 1, "late_round": 2, "late": 75.0}
    run = deployment.train(rounds=5, least=1, deadline=60.0, **late)
    result = deployment.result(run)
    replies = {
        line["round"]: line["figures"]["cohort"][0] for line in RunFolder(deployment.server).lines
    }
    assert replies[2] == 1
    assert replies[5] == 2
    assert (result["done"], result["skipped"], result["dropped"]) == (5, 0, [])

    def drop_late(reply):
        is_incomplete = replies[int(reply.metadata.group_id)] == 1
        return None if is_incomplete and reply.metadata.src_node_id == 2 else reply

    expected = run_in_process(tmp_path / "here", rounds=5, tamper=drop_late)
    np.testing.assert_allclose(result["w_global"], expected.state.w_global, atol=1e-6)
    assert deployment.party_checkpoint(1).round == 5
    np.testing.assert_allclose(
        deployment.party_checkpoint(1).arrays["w"], expected.state.models[2], atol=1e-6
    )
    assert np.abs(result["models"] - expected.state.models[2]).max(axis=1).min() < 1e-6


def test_rounds_without_any_party_are_skipped(deployment, tmp_path):
    """They are skipped after a bounded wait and do not change the result."""
    deployment.start(parties=2)
    run = deployment.train(rounds=200, least=2, patience=8.0, deadline=120.0, pause=4.0)
    both = (0, 1)
    deployment.wait_until(
        lambda: all(deployment.round_start(k, 3) is not None for k in both), "the third round", 240
    )
    for k in both:
        deployment.kill(f"node-{k}")
    line = "0 of at least 2 parties are connected, waiting up to 8 s"
    deployment.wait_until(lambda: line in deployment.server_log(run), "the server's message", 240)
    skipped = deployment.checkpoint().settings["skipped"]
    deployment.wait_until(
        lambda: deployment.checkpoint().settings["skipped"] > skipped, "a bounded wait", 60
    )
    for k in both:
        deployment.start_supernode(k, deployment.register_key(k), num_partitions=2)
    last_skipped = deployment.rounds_done()
    deployment.wait_until(lambda: good_rounds(deployment.checkpoint()) >= 4, "their return", 240)
    deployment.flwr("stop", run, CONNECTION)
    saved = deployment.checkpoint()
    assert saved.round > last_skipped
    line = f"Round {last_skipped} is skipped: 0 valid replies of at least 2"
    assert line in deployment.server_log(run)
    expected = run_in_process(tmp_path / "here", rounds=good_rounds(saved))
    np.testing.assert_allclose(saved.arrays["w_global"], expected.state.w_global, atol=1e-6)


def good_rounds(checkpoint):
    return checkpoint.round - checkpoint.settings["skipped"]
