"""What a deployment leaves for the board and the report."""

import numpy as np
import pytest
from deployed import PARTIES, descended, samples, zeros
from flwr.clientapp import ClientApp

import fedplus as fp
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus, InProcessGrid, Party
from fedplus.report.html import render_report
from fedplus.report.tables import comparison_table

METHOD = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


def error(w, x, y):
    return float(np.mean(np.square(x @ w["weight"][0] + w["bias"][0] - y)))


def app(folder):
    made, data = ClientApp(), samples()

    @made.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, folder / f"party-{k}")
        w, (x, y) = party.start, data[k]
        for _ in range(4):
            w = party.pull(descended(w, x, y, 0.1))
        scores = {"personal-score": error(w, x, y), "global-score": error(party.received, x, y)}
        return party.reply(w, {"num-examples": len(x), **scores})

    return made


def run(folder, rounds, connected=None):
    grid = InProcessGrid(app(folder), PARTIES)
    grid.connected = connected or grid.connected
    strategy = FedPlus(
        METHOD, rounds=rounds, folder=folder / "server", label="FedGeoMed+", score=("mse", "lower")
    )
    strategy.run(grid, zeros())
    return strategy


def test_the_board_and_the_report_show_it(tmp_path):
    strategy = run(tmp_path, 5)
    found = RunFolder(tmp_path / "server")
    assert found.status["state"] == "finished"
    assert [line["round"] for line in found.lines] == [1, 2, 3, 4, 5]
    last = found.lines[-1]
    for k, (x, y) in enumerate(samples()):
        w = strategy.state.models[k + 1]
        mine = {"bias": w[:1], "weight": w[None, 1:]}
        assert last["personal_score"][k] == pytest.approx(error(mine, x, y), rel=1e-4)
    assert last["personal"]["worst"] == max(last["personal_score"])
    v = METHOD.local.psi.prox(strategy.state.models[5] - strategy.state.w_global)
    assert last["v_norm"][4] == pytest.approx(float(np.linalg.norm(v)), rel=1e-4)
    (row,) = [row for row in comparison_table([found]).rows if row.method]
    assert row.columns["mean"][0] == pytest.approx(np.mean(last["personal_score"]))
    assert "FedGeoMed+" in render_report([found])


def test_parties_may_join_later_and_the_server_go_on(tmp_path):
    run(tmp_path, 2, connected=[1, 2])
    run(tmp_path, 4)
    found = RunFolder(tmp_path / "server")
    assert [len(line["personal_score"]) for line in found.lines] == [2, 2, 5, 5]
    assert found.parties["names"] == ["1", "2", "3", "4", "5"]
    render_report([found])


def test_without_scores_it_is_recorded_all_the_same(tmp_path):
    from deployed import grid_of

    FedPlus(METHOD, rounds=2, folder=tmp_path / "server").run(grid_of(METHOD, tmp_path), zeros())
    found = RunFolder(tmp_path / "server")
    assert found.lines[-1]["personal"]["mean"] is None
    render_report([found])


def test_a_skipped_round_is_told(tmp_path):
    grid, said = InProcessGrid(app(tmp_path), PARTIES), []

    def nobody():
        said.append(RunFolder(tmp_path / "server").status["message"])
        return []

    grid.get_node_ids = nobody
    FedPlus(METHOD, rounds=2, patience=0, folder=tmp_path / "server").run(grid, zeros())
    assert said == ["", "Round 1 is skipped: 0 good replies of at least 1"]
