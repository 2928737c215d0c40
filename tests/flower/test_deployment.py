"""A real deployment: TLS, node keys, a party killed and restarted, a server that goes on."""

import json
import sys

import numpy as np
import pytest
from deployment import APP, Deployment

from fedplus.flower import FedPlus, InProcessGrid


@pytest.fixture
def deployment(tmp_path):
    made = Deployment(tmp_path)
    try:
        yield made
    finally:
        made.close()


def in_process(folder, rounds):
    """The same app without a server."""
    sys.path.insert(0, str(APP))
    try:
        from regression import METHOD, zeros
        from regression.client import app
    finally:
        sys.path.remove(str(APP))
    strategy = FedPlus(METHOD, rounds=rounds)
    config = {"party-folder": str(folder), "pause": 0.0}
    strategy.run(InProcessGrid(app, 2, run_config=config), zeros())
    return strategy


def test_a_deployment_is_as_in_process_and_survives_a_killed_party(deployment, tmp_path):
    deployment.superlink()
    keys = [deployment.key(k) for k in range(2)]
    for k, key in enumerate(keys):
        deployment.register(key)
        deployment.supernode(k, key)
    server, parties = tmp_path / "server", tmp_path / "parties"
    server.mkdir()
    folders = {"server-folder": str(server), "party-folder": str(parties)}
    first = deployment.run(rounds=3, **folders)
    deployment.wait(lambda: deployment.status(first) == "finished:completed", "the first run", 240)
    told = json.loads((server / "told.json").read_text())
    expected = in_process(tmp_path / "here", rounds=3)
    assert (told["done"], told["skipped"], told["dropped"]) == (3, 0, [])
    np.testing.assert_allclose(told["w_global"], expected.state.w_global, atol=1e-6)
    models = sorted(w.tolist() for w in expected.state.models.values())
    np.testing.assert_allclose(told["models"], models, atol=1e-6)

    deployment.kill("node-1")
    deployment.supernode(1, keys[1])  # Flower lets it in again once it has missed a heartbeat.
    second = deployment.run(rounds=60, least=1, pause=1.0, **folders)
    deployment.wait(lambda: begun(parties / "1"), "the killed party", 240)
    assert min(begun(parties / "1")) > 3
    own = json.loads((parties / "1" / f"begun-{min(begun(parties / '1'))}").read_text())
    np.testing.assert_allclose(own, expected.state.models[2], atol=1e-6)
    assert begun(parties / "0")  # Nobody else noticed.
    deployment.flwr("stop", second, "loop")


def begun(folder):
    """The rounds after the third that a party has begun."""
    found = [int(path.name.removeprefix("begun-")) for path in folder.glob("begun-*")]
    return [round_ for round_ in found if round_ > 3]
