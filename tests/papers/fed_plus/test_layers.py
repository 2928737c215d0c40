"""Layers: the hybrid's trials read part by part; a quick try from beginning to end."""

import json
import re
from pathlib import Path

import pytest
from papers.fed_plus.results import read_csv
from papers.fed_plus.specs import names, spec
from papers.fed_plus.study import Asked

from command import fedplus
from papers.fed_plus import grids, layers, layers_plot, layers_text, tuning

RESULTS = Path(__file__).parents[3] / "papers" / "fed_plus" / "results"
TRIALS = [
    {"head_psi": head, "head_delta": None, "rest_psi": rest, "rest_delta": 0.1, "validation": v}
    for head, rest, v in (
        ("zero", "l2", 0.8), ("l1", "l2", 0.9), ("l1", "quadratic", 0.85), ("l2", "l2", None),
    )
]  # fmt: skip


def test_the_best_trial_of_a_part_is_found_whatever_the_other_has():
    assert layers_text.best_by(TRIALS, head="l1")["validation"] == 0.9
    assert layers_text.best_by(TRIALS, rest="l2")["head_psi"] == "l1"
    assert layers_text.best_by(TRIALS, head="l1", rest="quadratic")["validation"] == 0.85
    assert layers_text.best_by(TRIALS, head="l2") is None  # All diverged.


def test_every_pair_of_psi_is_tried_with_every_delta():
    grid = grids.grid_of("hybrid", {"eta": 0.1, "sigma": 1.0}, layers.BY)
    parts = grid["parts"]
    assert len(parts) == 7 * 7
    assert len(parts) * len(grid["eta"]) * len(grid["sigma"]) == grids.candidates_of(
        "hybrid", layers.BY
    )
    pairs = {(one["head/*"]["psi"], one["*"]["psi"]) for one in parts}
    assert len(pairs) == 16
    assert {tuple(one) for one in parts} == {tuple(layers.PARTS)}  # The first match wins.


def test_the_lstm_waits_for_a_gpu_or_to_be_asked_for(tmp_path):
    def listed(**more):
        return set(layers.specs_of(Asked(tmp_path, **more)))

    every = set(names("layers-"))
    assert listed() == listed(only="layers-") == every - {layers.LARGE}
    assert listed(device="gpu") == every
    assert listed(only="layers-sent140") == listed(only="sent140") == {layers.LARGE}


def test_what_is_said_of_the_large_one_is_in_its_specification():
    one = spec(layers.LARGE)
    assert (one.data.name, one.model.name) == ("sent140-standin", "lstm")


def test_layers_from_beginning_to_end(tmp_path):
    before = tmp_path / "kept/layers-sent140.csv"  # Made on another machine.
    before.parent.mkdir()
    before.write_text("method\nhybrid\n")
    fedplus(
        "paper", "layers", "--quick", "--jobs", "1", "--methods", "hybrid",
        "--out", tmp_path, "--results", tmp_path / "kept",
    )  # fmt: skip
    kept = tmp_path / "kept"
    assert before.read_text() == "method\nhybrid\n"
    trials = read_csv(kept / "layers-negatives-trials.csv")
    assert len(trials) == tuning.QUICK
    chosen = json.loads((kept / "layers-negatives-tuning.json").read_text())["hybrid"]
    best = max(trials, key=lambda one: one["validation"])
    assert chosen["score"] == pytest.approx(best["validation"])
    for pattern, part in layers.PARTS.items():
        assert chosen["settings"]["parts"][pattern]["psi"] == best[f"{part}_psi"]
        assert chosen["settings"]["parts"][pattern].get("delta") == best[f"{part}_delta"]
    run = tmp_path / "quick/layers/layers-negatives/hybrid-fed+-0"
    lines = (run / "rounds.jsonl").read_text().splitlines()
    scores = json.loads(lines[-1])["personal_score"]
    (row,) = [one for one in read_csv(kept / "layers-negatives.csv") if one["method"] == "hybrid"]
    assert row["mean"] == pytest.approx(sum(scores) / 10, rel=1e-4)
    assert row["outliers"] == pytest.approx(sum(scores[7:]) / 3, rel=1e-4)
    assert (kept / "layers.svg").stat().st_size > 0


def test_federations_made_apart_are_told_together():
    told = layers_text.blocks(RESULTS)
    assert list(layers_text.there(RESULTS)) == list(layers_text.TITLES)
    for title in layers_text.TITLES.values():
        assert f"| {title} | hybrid Fed+ |" in told["layers"]
        assert f"| {title} | head |" in told["layers-psi"]
    assert "stand-in" in layers_text.TITLES["sent140"]
    (figure,) = layers_plot.draw(RESULTS).values()
    titles = [axis.get_title() for axis in figure.axes]
    assert [title for title in titles if title] == list(layers_text.TITLES.values())


def test_zero_psi_is_not_called_training_alone():
    """Every trial has σ > 0, with which ψ = 0 damps steps; training alone needs σ = 0."""
    trials = [one for of in layers_text.there(RESULTS, "-trials").values() for one in of]
    assert all(one["sigma"] > 0 for one in trials if "zero" in (one["head_psi"], one["rest_psi"]))
    assert "alone" not in "".join(layers_text.NAMES.values())
    page = RESULTS.with_suffix(".md").read_text(encoding="utf-8")
    section = page.partition("### A ψ for each layer")[2].partition("\n### ")[0]
    claims = r"trained\s+alone|left\s+alone|parts?\s+alone|zero\s+\(alone\)|ψ\s+=\s+0[^.]*\balone"
    assert re.findall(claims, section) == []
    assert "damped" in section
