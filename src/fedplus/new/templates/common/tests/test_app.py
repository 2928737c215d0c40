"""The app runs in process: it trains, it continues, and a failing party does not affect others."""

import json

import numpy as np
import pytest
from fedplus.flower import InProcessGrid
from flwr.clientapp import ClientApp

from fedapp import party
from fedapp.server import run_federation

PARTIES = 3
CONFIG = {
    "rounds": 5, "cohort": 0, "least": 2, "deadline": 60.0, "patience": 1.0, "steps": 20,
    "forget": "", "allow-changes": False, "parties": PARTIES,
}  # fmt: skip


@pytest.fixture(autouse=True)
def state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPLUS_STATE", str(tmp_path / "state"))


def last_scores(folder):
    line = (folder / "rounds.jsonl").read_text().splitlines()[-1]
    return json.loads(line)["personal_score"]


def test_every_party_learns(tmp_path):
    run_federation(
        InProcessGrid(party.app, PARTIES, run_config=CONFIG), CONFIG, tmp_path / "server"
    )
    assert min(last_scores(tmp_path / "server")) > 0.5  # With ten classes, chance is 0.1.


def test_a_stopped_server_continues(tmp_path):
    grid = InProcessGrid(party.app, PARTIES, run_config=CONFIG)
    run_federation(grid, CONFIG | {"rounds": 2}, tmp_path / "server")
    continued = run_federation(grid, CONFIG, tmp_path / "server")
    uninterrupted = run_federation(grid, CONFIG, tmp_path / "other")
    assert continued.state.rounds_done == 5
    np.testing.assert_allclose(continued.state.w_global, uninterrupted.state.w_global, atol=1e-5)


def test_a_party_that_left_is_forgotten(tmp_path):
    grid = InProcessGrid(party.app, PARTIES, run_config=CONFIG)
    run_federation(grid, CONFIG | {"rounds": 1}, tmp_path / "server")
    grid.connected.remove(3)
    continued = run_federation(grid, CONFIG | {"rounds": 2, "forget": "3"}, tmp_path / "server")
    assert sorted(continued.state.models) == [1, 2]


def test_a_failing_party_does_not_affect_the_others(tmp_path):
    failing = ClientApp()

    @failing.train()
    def train(message, context):
        if context.node_config["partition-id"] == 1:
            raise RuntimeError("out of memory")
        return party.train(message, context)

    grid = InProcessGrid(failing, PARTIES, run_config=CONFIG)
    strategy = run_federation(grid, CONFIG, tmp_path / "server")
    assert strategy.dropped.total == 5
    assert "out of memory" in strategy.dropped.recent[0].reason
    assert min(last_scores(tmp_path / "server")) > 0.5
