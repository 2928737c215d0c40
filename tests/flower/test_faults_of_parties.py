"""Parties that are killed, late, or gone, in real processes."""

import numpy as np
import pytest

from deployment import in_process
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower.local_deployment import CONNECTION

pytestmark = pytest.mark.long


def test_a_party_killed_in_its_steps_rejoins_with_its_own_model(deployment):
    deployment.begin(parties=3)
    run = deployment.train(rounds=60, least=1, pause=6.0, deadline=45.0)
    deployment.wait(lambda: deployment.begun(1, 3) is not None, "the third round", 240)
    deployment.crash("node-1")
    kept = deployment.kept(1)
    assert kept.round == 2  # It was killed in its steps of round 3.

    def rejoined():
        return [t for t in range(4, 61) if deployment.begun(1, t) is not None]

    deployment.wait(rejoined, "the killed party", 300)
    back = min(rejoined())
    np.testing.assert_allclose(deployment.begun(1, back), kept.arrays["w"])
    for k in (0, 2):  # The others went on meanwhile.
        assert all(deployment.begun(k, t) is not None for t in range(1, back))
    deployment.wait(lambda: deployment.rounds() >= back, "the round in which it is back")
    deployment.flwr("stop", run, CONNECTION)
    saved = deployment.checkpoint()
    assert saved.settings["skipped"] == 0
    own = deployment.kept(1, before=saved.round + 1).arrays["w"]
    assert (np.abs(saved.arrays["models"] - own).max(axis=1) < 1e-6).any()


def test_a_late_model_is_not_taken_for_another_rounds(deployment, tmp_path):
    """Party 1 is late in round 2. At the end all is as if its reply of that round had been lost."""
    deployment.begin(parties=2)
    late = {"fault": "late", "faulty": 1, "late_round": 2, "late": 75.0}
    run = deployment.train(rounds=5, least=1, deadline=60.0, **late)
    told = deployment.told(run)
    replies = {
        line["round"]: line["figures"]["cohort"][0] for line in RunFolder(deployment.server).lines
    }
    assert replies[2] == 1
    assert replies[5] == 2
    assert (told["done"], told["skipped"], told["dropped"]) == (5, 0, [])

    def lost(reply):
        missed = replies[int(reply.metadata.group_id)] == 1
        return None if missed and reply.metadata.src_node_id == 2 else reply

    expected = in_process(tmp_path / "here", rounds=5, tamper=lost)
    np.testing.assert_allclose(told["w_global"], expected.state.w_global, atol=1e-6)
    assert deployment.kept(1).round == 5
    np.testing.assert_allclose(deployment.kept(1).arrays["w"], expected.state.models[2], atol=1e-6)
    assert np.abs(told["models"] - expected.state.models[2]).max(axis=1).min() < 1e-6


def test_all_parties_gone_for_a_while(deployment, tmp_path):
    """Rounds without them are skipped after a bounded wait; then as if those rounds had not been."""
    deployment.begin(parties=2)
    run = deployment.train(rounds=200, least=2, patience=8.0, deadline=120.0, pause=4.0)
    both = (0, 1)
    deployment.wait(
        lambda: all(deployment.begun(k, 3) is not None for k in both), "the third round", 240
    )
    for k in both:
        deployment.kill(f"node-{k}")
    waits = "0 of at least 2 parties are connected, waiting up to 8 s"
    deployment.wait(lambda: waits in deployment.said(run), "the server's message", 240)
    skipped = deployment.checkpoint().settings["skipped"]
    deployment.wait(
        lambda: deployment.checkpoint().settings["skipped"] > skipped, "a bounded wait", 60
    )
    for k in both:
        deployment.supernode(k, deployment.key(k), num_partitions=2)
    gone = deployment.rounds()
    deployment.wait(lambda: good_rounds(deployment.checkpoint()) >= 4, "their return", 240)
    deployment.flwr("stop", run, CONNECTION)
    saved = deployment.checkpoint()
    assert saved.round > gone
    assert f"Round {gone} is skipped: 0 good replies of at least 2" in deployment.said(run)
    expected = in_process(tmp_path / "here", rounds=good_rounds(saved))
    np.testing.assert_allclose(saved.arrays["w_global"], expected.state.w_global, atol=1e-6)


def good_rounds(checkpoint):
    return checkpoint.round - checkpoint.settings["skipped"]
