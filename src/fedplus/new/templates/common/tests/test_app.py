"""The app in process: it trains, it goes on, and a party that fails harms nobody else."""

import json

import numpy as np
import pytest
from fedplus.flower import InProcessGrid
from flwr.clientapp import ClientApp

from fedapp import party
from fedapp.server import trained

PARTIES = 3
CONFIG = {
    "rounds": 5, "cohort": 0, "least": 2, "deadline": 60.0, "patience": 1.0, "steps": 20,
    "forget": "", "allow-changes": False,
}  # fmt: skip


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPLUS_STATE", str(tmp_path / "state"))


def scores(folder):
    line = (folder / "rounds.jsonl").read_text().splitlines()[-1]
    return json.loads(line)["personal_score"]


def test_every_party_learns(tmp_path):
    trained(InProcessGrid(party.app, PARTIES, run_config=CONFIG), CONFIG, tmp_path / "server")
    assert min(scores(tmp_path / "server")) > 0.5  # Ten classes: chance is 0.1.


def test_a_server_that_was_stopped_goes_on(tmp_path):
    grid = InProcessGrid(party.app, PARTIES, run_config=CONFIG)
    trained(grid, CONFIG | {"rounds": 2}, tmp_path / "server")
    again = trained(grid, CONFIG, tmp_path / "server")
    whole = trained(grid, CONFIG, tmp_path / "other")
    assert again.state.done == 5
    np.testing.assert_allclose(again.state.w_global, whole.state.w_global, atol=1e-5)


def test_a_party_that_left_is_forgotten(tmp_path):
    grid = InProcessGrid(party.app, PARTIES, run_config=CONFIG)
    trained(grid, CONFIG | {"rounds": 1}, tmp_path / "server")
    grid.connected.remove(3)
    again = trained(grid, CONFIG | {"rounds": 2, "forget": "3"}, tmp_path / "server")
    assert sorted(again.state.models) == [1, 2]


def test_a_party_that_fails_harms_nobody_else(tmp_path):
    failing = ClientApp()

    @failing.train()
    def train(message, context):
        if context.node_config["partition-id"] == 1:
            raise RuntimeError("out of memory")
        return party.train(message, context)

    grid = InProcessGrid(failing, PARTIES, run_config=CONFIG)
    strategy = trained(grid, CONFIG, tmp_path / "server")
    assert len(strategy.dropped) == 5
    assert "out of memory" in strategy.dropped[0][2]
    assert min(scores(tmp_path / "server")) > 0.5
