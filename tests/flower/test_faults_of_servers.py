"""A server that is killed goes on with a new run, in real processes."""

import numpy as np
import pytest

from deployment import in_process

pytestmark = pytest.mark.long


def killed_with_its_superlink(deployment):
    deployment.kill("superlink")
    deployment.superlink()


def killed_alone(deployment):
    deployment.crash("superlink", "flwr-serverapp")


@pytest.mark.parametrize("kill", [killed_with_its_superlink, killed_alone])
def test_a_killed_server_goes_on_as_if_nothing_had_been(deployment, tmp_path, kill):
    """Between two rounds, and while the parties are in their steps."""
    config = {"rounds": 6, "least": 2, "pause": 3.0, "deadline": 150.0, "patience": 150.0}
    deployment.begin(parties=2)
    deployment.train(**config)
    deployment.wait(lambda: deployment.rounds() == 2, "two rounds", 240)
    goes_on_after_a_kill(deployment, kill, 2)
    assert all(deployment.begun(k, 3) is None for k in (0, 1))  # It was between two rounds.

    deployment.train(**config)
    deployment.wait(
        lambda: all(deployment.begun(k, 4) is not None for k in (0, 1)), "the fourth round", 300
    )
    goes_on_after_a_kill(deployment, kill, 3)
    last = deployment.train(**config)
    told = deployment.told(last)
    assert "Going on after round 3" in deployment.said(last)
    expected = in_process(tmp_path / "here", rounds=6)
    assert (told["done"], told["skipped"], told["dropped"]) == (6, 0, [])
    np.testing.assert_allclose(told["w_global"], expected.state.w_global, atol=1e-6)
    models = sorted(w.tolist() for w in expected.state.models.values())
    np.testing.assert_allclose(told["models"], models, atol=1e-6)


def goes_on_after_a_kill(deployment, kill, done):
    """What had been saved is still there: w̃, W and the round."""
    kill(deployment)
    saved = deployment.checkpoint()
    assert saved.round == done
    for k in (0, 1):
        own = deployment.kept(k, before=done + 1)
        assert own.round == done
        assert np.abs(saved.arrays["models"] - own.arrays["w"]).max(axis=1).min() < 1e-6
