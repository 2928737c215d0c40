"""Tuning: the same budget for every method, and the choice over several splits."""

import json
from pathlib import Path

import numpy as np
import pytest
from papers.fed_plus.specs import load_spec, select_methods, spec_names
from papers.fed_plus.study import StudyOptions

from fedplus.check import SettingError
from papers.fed_plus import attacks, grids, layers, silos, tuning

STUDIES = {
    silos.TUNING_RULES: spec_names(silos.PREFIX),
    attacks.TUNING_RULES: [attacks.NAME],
    layers.TUNING_RULES: spec_names(layers.PREFIX),
}


@pytest.mark.parametrize("rules_name", STUDIES)
def test_every_method_has_as_many_candidates(rules_name):
    budget = grids.load_rules(rules_name)["budget"].get("candidates")
    for name in STUDIES[rules_name]:
        spec = load_spec(name)
        assert {grids.method_key(method) for method in spec.methods} == set(
            grids.load_rules(rules_name)["grid"]
        )
        for method in spec.methods:
            key, count = grids.method_key(method), 1
            for values in grids.method_grid(key, method.settings, rules_name).values():
                assert all(values.count(value) == 1 for value in values)
                count *= len(values)
            if budget is not None:
                assert count >= grids.candidate_count(key, rules_name) >= budget
            if key != "hybrid":
                assert grids.candidate_count(key, rules_name) == budget


def test_methods_of_one_name_have_keys_by_label():
    keys = [grids.method_key(method) for method in load_spec("attacks").methods]
    assert len(set(keys)) == len(keys)
    assert {"ditto", "ditto-geometric-median"} <= set(keys)


def test_chosen_settings_go_to_the_method_with_that_label():
    chosen = {"ditto": {"lam": 0.5}, "ditto-geometric-median": {"lam": 2.0}}
    plain, robust = tuning.with_chosen_settings(
        load_spec("attacks"), chosen, attacks.TUNING_RULES
    ).methods
    assert (plain.settings["lam"], robust.settings["lam"]) == (0.5, 2.0)
    assert robust.settings["aggregate"] == {"name": "geometric-median"}


def test_settings_are_chosen_for_the_number_of_rounds_that_is_trained():
    assert grids.tuning_rounds(load_spec("attacks"), attacks.TUNING_RULES) == 60
    assert grids.tuning_rounds(load_spec("table2-mnist-robust-n10")) == 100


def part(*means, better="higher"):
    """Return the trials of candidates that differ in η, on one split."""
    trials = [
        {"settings": {"eta": eta, "sigma": 1.0}, "mean": mean}
        for eta, mean in zip((0.1, 1.0, 10.0), means, strict=True)
    ]
    return {"rounds": 5, "better": better, "trials": trials}


@pytest.mark.parametrize(("better", "eta"), [("higher", 1.0), ("lower", 0.1)])
def test_the_mean_over_splits_decides(better, eta):
    merged = tuning.merge_splits(
        [part(0.5, 0.6, 0.9, better=better), part(0.5, 0.7, 0.2, better=better)]
    )
    assert merged["settings"] == {"eta": eta, "sigma": 1.0}
    assert merged["at_edge"] == (["eta"] if eta == 0.1 else [])
    assert merged["score"] == pytest.approx(0.65 if better == "higher" else 0.5)
    assert merged["splits"] == 2


def test_a_candidate_that_diverges_on_one_split_is_not_chosen():
    assert (
        tuning.merge_splits([part(0.5, 0.6, 0.9), part(0.5, 0.7, None)])["settings"]["eta"] == 1.0
    )
    lower = [part(np.inf, 0.6, 0.9, better="lower"), part(0.5, 0.7, 0.9, better="lower")]
    assert tuning.merge_splits(lower)["settings"]["eta"] == 1.0
    with pytest.raises(SettingError, match="all diverged"):
        tuning.merge_splits([part(None, 0.5, None), part(0.5, None, None)])


def test_patterns_stay_in_the_order_in_which_they_match():
    parts = {"head/*": {"psi": "l1", "delta": 0.1}, "*": {"psi": "zero"}}
    trial = {"settings": {"parts": parts}, "mean": 0.5}
    merged = tuning.merge_splits([{"rounds": 5, "better": "higher", "trials": [trial]}])
    assert list(merged["settings"]["parts"]) == ["head/*", "*"]


def test_a_candidate_is_evaluated_on_every_split_once(tmp_path, monkeypatch):
    evaluated = []

    def run_fake_jobs(options, jobs):
        for job in jobs:
            path, split = Path(job.arguments[0]), job.arguments[-1]
            evaluated.append(split)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(part(0.5, 0.9 if split == 0 else 0.1, 0.4)))

    monkeypatch.setattr(tuning, "run_jobs", run_fake_jobs)
    options = StudyOptions(tmp_path, methods=("local",))
    specs = {"silos-hospitals": select_methods(load_spec("silos-hospitals"), options)}
    tuning.tune_methods(options, specs, silos.TUNING_RULES)
    assert evaluated == grids.load_rules(silos.TUNING_RULES)["budget"]["splits"]
    assert tuning.chosen_settings(options, "silos-hospitals")["local"]["eta"] == 0.1
    monkeypatch.setattr(
        tuning, "method_grid", lambda *arguments: {"eta": [0.1, 1.0, 10.0], "sigma": [1.0]}
    )
    tuning.tune_methods(options, specs, silos.TUNING_RULES)
    assert len(evaluated) == 3  # Finished trials are not repeated.
    monkeypatch.undo()
    with pytest.raises(SettingError, match=r"local\.json must be chosen from the present grid"):
        tuning.tune_methods(options, specs, silos.TUNING_RULES)
