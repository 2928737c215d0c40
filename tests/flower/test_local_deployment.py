"""A real deployment with TLS and node keys: it equals a run in process and survives a killed party."""

import numpy as np
from app_deployment import run_in_process

from fedplus.flower.local_deployment import CONNECTION


def test_a_deployment_equals_a_run_in_process_and_survives_a_killed_party(deployment, tmp_path):
    deployment.start(parties=2)
    result = deployment.result(deployment.train(rounds=3))
    expected = run_in_process(tmp_path / "here", rounds=3)
    assert (result["done"], result["skipped"], result["dropped"]) == (3, 0, [])
    np.testing.assert_allclose(result["w_global"], expected.state.w_global, atol=1e-6)
    models = sorted(w.tolist() for w in expected.state.models.values())
    np.testing.assert_allclose(result["models"], models, atol=1e-6)

    deployment.crash("node-1")  # Flower accepts it again after it has missed a heartbeat.
    second = deployment.train(rounds=60, least=1, pause=1.0)
    deployment.wait_until(lambda: started_rounds(deployment, 1), "the killed party", 240)
    own = deployment.round_start(1, min(started_rounds(deployment, 1)))
    np.testing.assert_allclose(own, expected.state.models[2], atol=1e-6)
    assert started_rounds(deployment, 0)  # The other party continues.
    deployment.flwr("stop", second, CONNECTION)


def started_rounds(deployment, k):
    """Return the rounds after the third that a party has started."""
    return [t for t in range(4, 61) if deployment.round_start(k, t) is not None]
