"""The server's optimizer and schedules: a restarted server continues exactly."""

import logging

import numpy as np
import optax
import pytest

import fedplus as fp
from fedplus import schedules
from fedplus._checkpoint_file import load
from fedplus.flower import FedPlus
from fedplus.server_optimizer import AdaptiveServer, MomentumServer, OptaxServer
from linear_federation import make_app, make_grid, zeros

PLUS = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)
SERVERS = {
    "adam": AdaptiveServer("adam", schedules.Inverse(0.05)),
    "yogi": AdaptiveServer("yogi", 0.05),
    "momentum": MomentumServer(0.5, 0.9),
    "optax": OptaxServer(optax.adam(optax.linear_schedule(0.1, 0.01, 5))),
}


@pytest.mark.parametrize("name", SERVERS)
def test_a_restarted_server_continues_bit_by_bit(name, tmp_path):
    method = PLUS.replace(server_optimizer=SERVERS[name])
    uninterrupted = FedPlus(method, rounds=5)
    uninterrupted.run(make_grid(method, tmp_path / "a"), zeros())
    for rounds in (2, 3, 5):
        restarted = FedPlus(method, rounds=rounds, folder=tmp_path / "server")
        restarted.run(make_grid(method, tmp_path / "b"), zeros())
    np.testing.assert_array_equal(restarted.state.w_global, uninterrupted.state.w_global)
    without = FedPlus(PLUS, rounds=5)
    without.run(make_grid(PLUS, tmp_path / "c"), zeros())
    assert not np.allclose(without.state.w_global, restarted.state.w_global, atol=1e-3)


def test_another_optimizer_is_refused_and_if_allowed_begins_anew(tmp_path, caplog):
    logging.getLogger("flwr").propagate = True

    def train(server, rounds, **settings):
        method = PLUS.replace(server_optimizer=server)
        strategy = FedPlus(method, rounds=rounds, folder=tmp_path / "s", **settings)
        strategy.run(make_grid(method, tmp_path), zeros())

    train(SERVERS["yogi"], 1)
    with pytest.raises(fp.SettingError, match=r"server was AdaptiveServer\(rule='yogi'.*, is Mom"):
        train(SERVERS["momentum"], 2)
    assert "begins with a new state" not in caplog.text
    train(SERVERS["momentum"], 2, allow_changes=True)
    assert "begins with a new state" in caplog.text
    train(None, 3, allow_changes=True)
    assert not any(name.startswith("server") for name in load(tmp_path / "s/checkpoint").arrays)


def test_parties_get_the_values_of_the_round(tmp_path):
    """Also after a restart; a function of the round is compared by its values."""
    method = PLUS.replace(eta=schedules.Linear(0.4, 0.1, rounds=3), sigma=lambda t: 0.5 + t)
    seen = []

    def app(message, context):
        config = message.content["config"]
        seen.append((config["fedplus-eta"], config["fedplus-sigma"]))
        return make_app(PLUS, tmp_path)(message, context)

    for rounds in (2, 4):
        strategy = FedPlus(method, rounds=rounds, folder=tmp_path / "s")
        grid = make_grid(PLUS, tmp_path)
        grid._app, grid.connected = app, [1]
        strategy.run(grid, zeros())
    np.testing.assert_allclose(seen, [(0.4, 0.5), (0.3, 1.5), (0.2, 2.5), (0.1, 3.5)])
    settings = load(tmp_path / "s" / "checkpoint").settings["method"]
    assert settings["eta"] == "Linear(first=0.4, last=0.1, rounds=3)"
    other = method.replace(sigma=lambda t: 0.5 + 2 * t)
    expected = r"sigma was Function\(0.5 in round 0, 1.5 in .*, is Function\(0.5 in round 0, 2.5 in"
    with pytest.raises(fp.SettingError, match=expected):
        FedPlus(other, rounds=5, folder=tmp_path / "s").run(grid, zeros())


def test_settings_that_only_the_simulator_applies_are_logged(tmp_path, caplog):
    logging.getLogger("flwr").propagate = True
    method = fp.presets.fedavg_ft(eta=0.1, fine_tune=3)
    FedPlus(method, rounds=1).run(make_grid(method, tmp_path / "a"), zeros())
    assert "Only the simulator applies fine_tune=3; here the parties' own code" in caplog.text
    caplog.clear()
    FedPlus(PLUS, rounds=1).run(make_grid(PLUS, tmp_path / "b"), zeros())
    assert "Only the simulator" not in caplog.text
