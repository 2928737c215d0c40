"""The run folder of a deployment, which the board and the report show."""

import numpy as np
import pytest
from flwr.clientapp import ClientApp

import fedplus as fp
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus, InProcessGrid, Party
from fedplus.report.html import render_report
from fedplus.report.tables import comparison_table
from linear_federation import PARTIES, gradient_step, make_grid, samples, zeros

METHOD = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


def squared_error(w, x, y):
    return float(np.mean(np.square(x @ w["weight"][0] + w["bias"][0] - y)))


def scoring_app(folder):
    app, data = ClientApp(), samples()

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, folder / f"party-{k}")
        w, (x, y) = party.start, data[k]
        for _ in range(4):
            w = party.pull(gradient_step(w, x, y, 0.1))
        scores = {
            "personal-score": squared_error(w, x, y),
            "global-score": squared_error(party.global_model, x, y),
        }
        return party.reply(w, {"num-examples": len(x), **scores})

    return app


def run(folder, rounds, connected=None):
    grid = InProcessGrid(scoring_app(folder), PARTIES)
    grid.connected = connected or grid.connected
    strategy = FedPlus(
        METHOD, rounds=rounds, folder=folder / "server", label="FedGeoMed+", score=("mse", "lower")
    )
    strategy.run(grid, zeros())
    return strategy


def test_the_run_folder_has_the_scores_and_norms_of_all_parties(tmp_path):
    strategy = run(tmp_path, 5)
    run_folder = RunFolder(tmp_path / "server")
    assert run_folder.status["state"] == "finished"
    assert [line["round"] for line in run_folder.lines] == [1, 2, 3, 4, 5]
    last = run_folder.lines[-1]
    for k, (x, y) in enumerate(samples()):
        w = strategy.state.models[k + 1]
        model = {"bias": w[:1], "weight": w[None, 1:]}
        assert last["personal_score"][k] == pytest.approx(squared_error(model, x, y), rel=1e-4)
    assert last["personal"]["worst"] == max(last["personal_score"])
    v = METHOD.local.psi.prox(strategy.state.models[5] - strategy.state.w_global)
    assert last["v_norm"][4] == pytest.approx(float(np.linalg.norm(v)), rel=1e-4)
    (row,) = [row for row in comparison_table([run_folder]).rows if row.method]
    assert row.columns["mean"][0] == pytest.approx(np.mean(last["personal_score"]))
    assert "FedGeoMed+" in render_report([run_folder])


def test_parties_can_join_later_when_the_server_continues(tmp_path):
    run(tmp_path, 2, connected=[1, 2])
    run(tmp_path, 4)
    run_folder = RunFolder(tmp_path / "server")
    assert [len(line["personal_score"]) for line in run_folder.lines] == [2, 2, 5, 5]
    assert run_folder.parties["names"] == ["1", "2", "3", "4", "5"]
    render_report([run_folder])


def test_rounds_without_scores_are_recorded(tmp_path):
    FedPlus(METHOD, rounds=2, folder=tmp_path / "server").run(make_grid(METHOD, tmp_path), zeros())
    run_folder = RunFolder(tmp_path / "server")
    assert run_folder.lines[-1]["personal"]["mean"] is None
    render_report([run_folder])


def test_the_status_shows_a_skipped_round(tmp_path):
    grid, messages = InProcessGrid(scoring_app(tmp_path), PARTIES), []

    def no_nodes():
        messages.append(RunFolder(tmp_path / "server").status["message"])
        return []

    grid.get_node_ids = no_nodes
    FedPlus(METHOD, rounds=2, patience=0, folder=tmp_path / "server").run(grid, zeros())
    assert messages == ["", "Round 1 is skipped: 0 valid replies of at least 1"]
