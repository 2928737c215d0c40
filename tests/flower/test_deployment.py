"""A real deployment: TLS, node keys, a party killed and restarted, a server that goes on."""

import numpy as np

from deployment import in_process
from fedplus.flower.local_deployment import CONNECTION


def test_a_deployment_is_as_in_process_and_survives_a_killed_party(deployment, tmp_path):
    deployment.begin(parties=2)
    told = deployment.told(deployment.train(rounds=3))
    expected = in_process(tmp_path / "here", rounds=3)
    assert (told["done"], told["skipped"], told["dropped"]) == (3, 0, [])
    np.testing.assert_allclose(told["w_global"], expected.state.w_global, atol=1e-6)
    models = sorted(w.tolist() for w in expected.state.models.values())
    np.testing.assert_allclose(told["models"], models, atol=1e-6)

    deployment.crash("node-1")  # Flower lets it in again once it has missed a heartbeat.
    second = deployment.train(rounds=60, least=1, pause=1.0)
    deployment.wait(lambda: begun(deployment, 1), "the killed party", 240)
    own = deployment.begun(1, min(begun(deployment, 1)))
    np.testing.assert_allclose(own, expected.state.models[2], atol=1e-6)
    assert begun(deployment, 0)  # Nobody else noticed.
    deployment.flwr("stop", second, CONNECTION)


def begun(deployment, k):
    """The rounds after the third that a party has begun."""
    return [t for t in range(4, 61) if deployment.begun(k, t) is not None]
