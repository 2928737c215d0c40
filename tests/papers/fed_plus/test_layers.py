"""Layers: the best trial of each part, the grid, and a quick trial from beginning to end."""

import json
import re
from pathlib import Path

import pytest
from papers.fed_plus.results import read_csv
from papers.fed_plus.specs import load_spec, spec_names
from papers.fed_plus.study import StudyOptions
from study_command import run_study

from papers.fed_plus import grids, layers, layers_report, tuning

RESULTS = Path(__file__).parents[3] / "papers" / "fed_plus" / "results"
TRIALS = [
    {"head_psi": head, "head_delta": None, "rest_psi": rest, "rest_delta": 0.1, "validation": v}
    for head, rest, v in (
        ("zero", "l2", 0.8), ("l1", "l2", 0.9), ("l1", "quadratic", 0.85), ("l2", "l2", None),
    )
]  # fmt: skip


def test_the_best_trial_of_a_part_is_over_all_psi_of_the_other_part():
    assert layers_report.best_trial(TRIALS, head="l1")["validation"] == 0.9
    assert layers_report.best_trial(TRIALS, rest="l2")["head_psi"] == "l1"
    assert layers_report.best_trial(TRIALS, head="l1", rest="quadratic")["validation"] == 0.85
    assert layers_report.best_trial(TRIALS, head="l2") is None  # All diverged.


def test_every_pair_of_psi_is_tried_with_every_delta():
    grid = grids.method_grid("hybrid", {"eta": 0.1, "sigma": 1.0}, layers.TUNING_RULES)
    parts = grid["parts"]
    assert len(parts) == 7 * 7
    assert len(parts) * len(grid["eta"]) * len(grid["sigma"]) == grids.candidate_count(
        "hybrid", layers.TUNING_RULES
    )
    pairs = {(pair["head/*"]["psi"], pair["*"]["psi"]) for pair in parts}
    assert len(pairs) == 16
    assert {tuple(pair) for pair in parts} == {tuple(layers.PARTS)}  # The first match wins.


def test_the_lstm_is_trained_on_a_gpu_or_by_name_only(tmp_path):
    def names(**options):
        return set(layers.study_specs(StudyOptions(tmp_path, **options)))

    every = set(spec_names("layers-"))
    assert names() == names(only="layers-") == every - {layers.GPU_SPEC}
    assert names(device="gpu") == every
    assert names(only="layers-sent140") == names(only="sent140") == {layers.GPU_SPEC}


def test_the_gpu_specification_is_an_lstm_on_the_stand_in():
    spec = load_spec(layers.GPU_SPEC)
    assert (spec.data.name, spec.model.name) == ("sent140-standin", "lstm")


def test_layers_from_beginning_to_end(tmp_path):
    before = tmp_path / "results/layers-sent140.csv"  # Made on another machine.
    before.parent.mkdir()
    before.write_text("method\nhybrid\n")
    run_study(
        "layers", "--quick", "--jobs", "1", "--methods", "hybrid",
        "--out", tmp_path, "--results", tmp_path / "results",
    )  # fmt: skip
    results = tmp_path / "results"
    assert before.read_text() == "method\nhybrid\n"
    trials = read_csv(results / "layers-negatives-trials.csv")
    assert len(trials) == tuning.QUICK_CANDIDATES
    chosen = json.loads((results / "layers-negatives-tuning.json").read_text())["hybrid"]
    best = max(trials, key=lambda one: one["validation"])
    assert chosen["score"] == pytest.approx(best["validation"])
    for pattern, part in layers.PARTS.items():
        assert chosen["settings"]["parts"][pattern]["psi"] == best[f"{part}_psi"]
        assert chosen["settings"]["parts"][pattern].get("delta") == best[f"{part}_delta"]
    run = tmp_path / "quick/layers/layers-negatives/hybrid-fed+-0"
    lines = (run / "rounds.jsonl").read_text().splitlines()
    scores = json.loads(lines[-1])["personal_score"]
    (row,) = [
        one for one in read_csv(results / "layers-negatives.csv") if one["method"] == "hybrid"
    ]
    assert row["mean"] == pytest.approx(sum(scores) / 10, rel=1e-4)
    assert row["outliers"] == pytest.approx(sum(scores[7:]) / 3, rel=1e-4)
    assert (results / "layers.svg").stat().st_size > 0


def test_the_report_has_the_federations_of_all_machines():
    blocks = layers_report.blocks(RESULTS)
    assert list(layers_report.read_records(RESULTS)) == list(layers_report.TITLES)
    for title in layers_report.TITLES.values():
        assert f"| {title} | hybrid Fed+ |" in blocks["layers"]
        assert f"| {title} | head |" in blocks["layers-psi"]
    assert "stand-in" in layers_report.TITLES["sent140"]
    (figure,) = layers_report.draw(RESULTS).values()
    titles = [axis.get_title() for axis in figure.axes]
    assert [title for title in titles if title] == list(layers_report.TITLES.values())


def test_zero_psi_is_not_called_training_alone():
    """Every trial has σ > 0, with which ψ = 0 damps steps; training alone needs σ = 0."""
    trials = [one for of in layers_report.read_records(RESULTS, "-trials").values() for one in of]
    assert all(one["sigma"] > 0 for one in trials if "zero" in (one["head_psi"], one["rest_psi"]))
    assert "alone" not in "".join(layers_report.PSI_LABELS.values())
    page = RESULTS.with_name("README.md").read_text(encoding="utf-8")
    section = page.partition("### A ψ for each layer")[2].partition("\n### ")[0]
    claims = r"trained\s+alone|left\s+alone|parts?\s+alone|zero\s+\(alone\)|ψ\s+=\s+0[^.]*\balone"
    assert re.findall(claims, section) == []
    assert "damped" in section
