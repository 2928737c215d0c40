"""A restarted server with changed settings is refused, unless the user allows the changes."""

import logging

import pytest

import fedplus as fp
from fedplus._checkpoint_file import load
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus
from linear_federation import PARTIES, make_grid, zeros

BEFORE = fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5))
CHANGED = {
    "psi": fp.FedPlus(fp.LocalSolve(fp.L1(0.1), eta=0.1, sigma=0.5)),
    "delta": fp.FedPlus(fp.LocalSolve(fp.L2(0.2), eta=0.1, sigma=0.5)),
    "eta": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.2, sigma=0.5)),
    "sigma": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.25)),
    "lam": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5, lam=0.5)),
    "optimizer": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5, optimizer="adam")),
    "over": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5), over="active"),
    "aggregate": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5), aggregate=fp.Mean()),
}


@pytest.fixture
def folder(tmp_path):
    FedPlus(BEFORE, rounds=2, folder=tmp_path / "s").run(make_grid(BEFORE, tmp_path), zeros())
    return tmp_path


def restart(folder, method, arrays=None, rounds=3, **settings):
    strategy = FedPlus(method, rounds=rounds, folder=folder / "s", **settings)
    strategy.run(make_grid(method, folder), arrays or zeros())
    return strategy


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_setting_is_refused_and_no_file_is_changed(name, folder):
    before = {p: p.read_bytes() for p in (folder / "s").rglob("*") if p.is_file()}
    setting = "psi" if name == "delta" else name
    expected = f"federation with other settings: .*{setting} was .*, is "
    with pytest.raises(fp.SettingError, match=expected) as error:
        restart(folder, CHANGED[name])
    assert "allow_changes=True" in str(error.value)
    assert "\n" not in str(error.value)
    assert before == {p: p.read_bytes() for p in (folder / "s").rglob("*") if p.is_file()}


def test_all_differences_are_listed(folder):
    other = fp.presets.fedavg(eta=0.3)
    with pytest.raises(fp.SettingError) as error:
        restart(folder, other, {"w": zeros()["weight"]}, score=("mse", "lower"))
    for difference in (
        "eta was 0.1, is 0.3", "sigma was 0.5, is 0", "lam was 0.0, is 1.0",
        "psi was L2(delta=0.1), is", "over was all, is active", "model was [['bias', [1]]",
        "score was ['accuracy', 'higher'], is ['mse', 'lower']",
    ):  # fmt: skip
        assert difference in str(error.value)


def test_allowed_changes_are_logged_and_recorded(folder, caplog):
    logging.getLogger("flwr").propagate = True
    changed = restart(folder, CHANGED["eta"], allow_changes=True)
    assert changed.state.rounds_done == 3
    assert (
        "Continuing after round 2 with other settings, as allowed: eta was 0.1, is 0.2"
        in caplog.text
    )
    recorded = load(folder / "s" / "checkpoint").settings["changes"]
    assert [(c["after_round"], c["changed"]) for c in recorded] == [(2, [["eta", 0.1, 0.2]])]
    assert RunFolder(folder / "s").status["changes"] == recorded
    later = restart(folder, CHANGED["eta"], rounds=4)  # It is the federation's setting now.
    assert later.state.changes == recorded
    with pytest.raises(fp.SettingError, match=r"eta was 0\.2, is 0\.1"):
        restart(folder, BEFORE, rounds=5)


def test_the_model_can_never_change(folder):
    with pytest.raises(fp.SettingError, match="Another model needs another folder"):
        restart(folder, BEFORE, {"w": zeros()["weight"]}, allow_changes=True)


def test_settings_outside_the_method_can_change(folder):
    changed = {"cohort": 2, "seed": 3, "least": 2, "deadline": 60.0, "patience": 1.0, "label": "x"}
    strategy = restart(folder, BEFORE, rounds=4, forget=[PARTIES], **changed)
    assert strategy.state.rounds_done == 4
