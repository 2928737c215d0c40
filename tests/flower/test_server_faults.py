"""A killed server continues with a new run, in real processes."""

import numpy as np
import pytest
from app_deployment import run_in_process

pytestmark = pytest.mark.long


def kill_superlink(deployment):
    deployment.kill("superlink")
    deployment.start_superlink()


def kill_serverapp(deployment):
    deployment.crash("superlink", "flwr-serverapp")


@pytest.mark.parametrize("kill", [kill_superlink, kill_serverapp])
def test_a_killed_server_continues_with_the_same_result(deployment, tmp_path, kill):
    """It is killed between two rounds, and while the parties do their steps."""
    config = {"rounds": 6, "least": 2, "pause": 3.0, "deadline": 150.0, "patience": 150.0}
    deployment.start(parties=2)
    deployment.train(**config)
    deployment.wait_until(lambda: deployment.rounds_done() == 2, "two rounds", 240)
    kill_and_check_checkpoints(deployment, kill, 2)
    # The server was killed between two rounds.
    assert all(deployment.round_start(k, 3) is None for k in (0, 1))

    deployment.train(**config)

    def has_round_4_started():
        return all(deployment.round_start(k, 4) is not None for k in (0, 1))

    deployment.wait_until(has_round_4_started, "the fourth round", 300)
    kill_and_check_checkpoints(deployment, kill, 3)
    last_run = deployment.train(**config)
    result = deployment.result(last_run)
    assert "Continuing after round 3" in deployment.server_log(last_run)
    expected = run_in_process(tmp_path / "here", rounds=6)
    assert (result["done"], result["skipped"], result["dropped"]) == (6, 0, [])
    np.testing.assert_allclose(result["w_global"], expected.state.w_global, atol=1e-6)
    models = sorted(w.tolist() for w in expected.state.models.values())
    np.testing.assert_allclose(result["models"], models, atol=1e-6)


def kill_and_check_checkpoints(deployment, kill, rounds_done):
    """Kill the server, and check that w̃, W and the round are still saved."""
    kill(deployment)
    saved = deployment.checkpoint()
    assert saved.round == rounds_done
    for k in (0, 1):
        own = deployment.party_checkpoint(k, before=rounds_done + 1)
        assert own.round == rounds_done
        assert np.abs(saved.arrays["models"] - own.arrays["w"]).max(axis=1).min() < 1e-6
