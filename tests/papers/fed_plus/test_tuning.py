"""Grids of several studies: alike for every method, by name or by label."""

import json
from pathlib import Path

import numpy as np
import pytest
from papers.fed_plus.specs import names, spec, wanted
from papers.fed_plus.study import Asked

from fedplus.check import SettingError
from papers.fed_plus import attacks, grids, layers, silos, splits, tuning

STUDIES = {
    silos.BY: names(silos.PREFIX), attacks.BY: [attacks.NAME], layers.BY: names(layers.PREFIX),
}  # fmt: skip


@pytest.mark.parametrize("by", STUDIES)
def test_every_method_has_as_many_candidates(by):
    budget = grids.rules(by)["budget"].get("candidates")
    for name in STUDIES[by]:
        one = spec(name)
        assert {grids.key_of(method) for method in one.methods} == set(grids.rules(by)["grid"])
        for method in one.methods:
            key, count = grids.key_of(method), 1
            for values in grids.grid_of(key, method.settings, by).values():
                assert all(values.count(value) == 1 for value in values)
                count *= len(values)
            if budget is not None:
                assert count >= grids.candidates_of(key, by) >= budget
            if key != "hybrid":
                assert grids.candidates_of(key, by) == budget


def test_methods_of_one_name_are_told_apart_by_their_labels():
    keys = [grids.key_of(method) for method in spec("attacks").methods]
    assert len(set(keys)) == len(keys)
    assert {"ditto", "ditto-geometric-median"} <= set(keys)


def test_chosen_settings_go_to_the_method_with_that_label():
    chosen = {"ditto": {"lam": 0.5}, "ditto-geometric-median": {"lam": 2.0}}
    plain, robust = tuning.with_chosen(spec("attacks"), chosen, attacks.BY).methods
    assert (plain.settings["lam"], robust.settings["lam"]) == (0.5, 2.0)
    assert robust.settings["aggregate"] == {"name": "geometric-median"}


def test_settings_are_chosen_for_the_length_that_is_trained():
    assert grids.rounds_of(spec("attacks"), attacks.BY) == 60
    assert grids.rounds_of(spec("table2-mnist-robust-n10")) == 100


def part(*means, better="higher"):
    """What one split says of candidates that differ in η."""
    trials = [
        {"settings": {"eta": eta, "sigma": 1.0}, "mean": mean}
        for eta, mean in zip((0.1, 1.0, 10.0), means, strict=True)
    ]
    return {"rounds": 5, "better": better, "trials": trials}


@pytest.mark.parametrize(("better", "eta"), [("higher", 1.0), ("lower", 0.1)])
def test_the_mean_over_splits_decides(better, eta):
    found = splits.merged([part(0.5, 0.6, 0.9, better=better), part(0.5, 0.7, 0.2, better=better)])
    assert found["settings"] == {"eta": eta, "sigma": 1.0}
    assert found["at_edge"] == (["eta"] if eta == 0.1 else [])
    assert found["score"] == pytest.approx(0.65 if better == "higher" else 0.5)
    assert found["splits"] == 2


def test_what_diverges_on_one_split_is_not_taken():
    assert splits.merged([part(0.5, 0.6, 0.9), part(0.5, 0.7, None)])["settings"]["eta"] == 1.0
    lower = [part(np.inf, 0.6, 0.9, better="lower"), part(0.5, 0.7, 0.9, better="lower")]
    assert splits.merged(lower)["settings"]["eta"] == 1.0
    with pytest.raises(SettingError, match="all diverged"):
        splits.merged([part(None, 0.5, None), part(0.5, None, None)])


def test_patterns_stay_in_the_order_in_which_they_match():
    parts = {"head/*": {"psi": "l1", "delta": 0.1}, "*": {"psi": "zero"}}
    trial = {"settings": {"parts": parts}, "mean": 0.5}
    found = splits.merged([{"rounds": 5, "better": "higher", "trials": [trial]}])
    assert list(found["settings"]["parts"]) == ["head/*", "*"]


def test_a_candidate_is_judged_on_every_split(tmp_path, monkeypatch):
    drawn = []

    def judged(asked, jobs):
        for job in jobs:
            place, split = Path(job.given[0]), job.given[-1]
            drawn.append(split)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(part(0.5, 0.9 if split == 0 else 0.1, 0.4)))

    monkeypatch.setattr(tuning, "carry_out", judged)
    asked = Asked(tmp_path, methods=("local",))
    specs = {"silos-hospitals": wanted(spec("silos-hospitals"), asked)}
    tuning.tuned(asked, specs, silos.BY)
    assert drawn == grids.rules(silos.BY)["budget"]["splits"]
    assert tuning.chosen_for(asked, "silos-hospitals")["local"]["eta"] == 0.1
    monkeypatch.setattr(tuning, "grid_of", lambda *of: {"eta": [0.1, 1.0, 10.0], "sigma": [1.0]})
    tuning.tuned(asked, specs, silos.BY)
    assert len(drawn) == 3  # What is judged is not judged again.
    monkeypatch.undo()
    with pytest.raises(
        SettingError, match=r"local\.json must be chosen from the grid as it is now"
    ):
        tuning.tuned(asked, specs, silos.BY)
