"""A server that is started again with other settings is refused, unless the user allows it."""

import logging

import optax
import pytest
from deployed import PARTIES, grid_of, zeros

import fedplus as fp
from fedplus._checkpoint import load
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus

BEFORE = fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5))
OTHERS = {
    "psi": fp.FedPlus(fp.LocalSolve(fp.L1(0.1), eta=0.1, sigma=0.5)),
    "delta": fp.FedPlus(fp.LocalSolve(fp.L2(0.2), eta=0.1, sigma=0.5)),
    "eta": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.2, sigma=0.5)),
    "sigma": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.25)),
    "lam": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5, lam=0.5)),
    "optimizer": fp.FedPlus(
        fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5, optimizer=optax.adam(0.1))
    ),
    "over": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5), over="active"),
    "aggregate": fp.FedPlus(fp.LocalSolve(fp.L2(0.1), eta=0.1, sigma=0.5), aggregate=fp.Mean()),
}


@pytest.fixture
def folder(tmp_path):
    FedPlus(BEFORE, rounds=2, folder=tmp_path / "s").run(grid_of(BEFORE, tmp_path), zeros())
    return tmp_path


def again(folder, method, arrays=None, rounds=3, **settings):
    strategy = FedPlus(method, rounds=rounds, folder=folder / "s", **settings)
    strategy.run(grid_of(method, folder), arrays or zeros())
    return strategy


@pytest.mark.parametrize("name", OTHERS)
def test_another_setting_is_refused_and_nothing_is_changed(name, folder):
    before = {p: p.read_bytes() for p in (folder / "s").rglob("*") if p.is_file()}
    said = "psi" if name == "delta" else name
    with pytest.raises(
        fp.SettingError, match=f"the same settings, got .*{said} was .*, is "
    ) as told:
        again(folder, OTHERS[name])
    assert "allow_changes=True" in str(told.value)
    assert "\n" not in str(told.value)
    assert before == {p: p.read_bytes() for p in (folder / "s").rglob("*") if p.is_file()}


def test_all_differences_are_listed(folder):
    other = fp.presets.fedavg(eta=0.3)
    with pytest.raises(fp.SettingError) as told:
        again(folder, other, {"w": zeros()["weight"]}, score=("mse", "lower"))
    for said in (
        "eta was 0.1, is 0.3", "sigma was 0.5, is 0", "lam was 0.0, is 1.0",
        "psi was L2(delta=0.1), is", "over was all, is active", "model was [['bias', [1]]",
        "score was ['accuracy', 'higher'], is ['mse', 'lower']",
    ):  # fmt: skip
        assert said in str(told.value)


def test_with_permission_it_continues_and_the_choice_is_logged_and_recorded(folder, caplog):
    logging.getLogger("flwr").propagate = True
    changed = again(folder, OTHERS["eta"], allow_changes=True)
    assert changed.state.done == 3
    assert (
        "Continuing after round 2 with other settings, as allowed: eta was 0.1, is 0.2"
        in caplog.text
    )
    recorded = load(folder / "s" / "checkpoint").settings["changes"]
    assert [(c["after_round"], c["changed"]) for c in recorded] == [(2, [["eta", 0.1, 0.2]])]
    assert RunFolder(folder / "s").status["changes"] == recorded
    later = again(folder, OTHERS["eta"], rounds=4)  # It is the federation's setting now.
    assert later.state.changes == recorded
    with pytest.raises(fp.SettingError, match=r"eta was 0\.2, is 0\.1"):
        again(folder, BEFORE, rounds=5)


def test_another_model_is_never_continued(folder):
    with pytest.raises(fp.SettingError, match="Another model needs another folder"):
        again(folder, BEFORE, {"w": zeros()["weight"]}, allow_changes=True)


def test_what_is_not_of_the_method_may_change_freely(folder):
    more = {"cohort": 2, "seed": 3, "least": 2, "deadline": 60.0, "patience": 1.0, "label": "x"}
    assert again(folder, BEFORE, rounds=4, forget=[PARTIES], **more).state.done == 4
