"""Attacks: which parties attack, which are evaluated, and a quick trial from beginning to end."""

import json

import numpy as np
import pytest
from papers.fed_plus.results import read_csv, to_csv, to_json
from papers.fed_plus.specs import load_spec
from study_command import run_study

from fedplus.experiments.build import ATTACKS as KNOWN
from fedplus.experiments.run_folder import RunFolder
from papers.fed_plus import attacks, attacks_report


def test_attackers_are_the_last_parties_and_at_most_45_percent():
    spec = load_spec("attacks")
    specs = attacks.attacked_specs(
        spec, [attacks.Case(a, s) for a in attacks.ATTACKS for s in (0.15, 0.45)]
    )
    assert set(attacks.ATTACKS) <= set(KNOWN)
    (fault,) = specs["sign_flip-0.15"].train.faults
    assert (fault.parties, fault.attack, fault.settings) == (
        [17, 18, 19],
        "sign_flip",
        {"scale": 3},
    )
    (fault,) = specs["inner_product-0.45"].train.faults
    assert fault.parties == list(range(11, 20))
    assert "local" not in {method.name for method in specs["scaling-0.45"].methods}
    assert spec.train.faults == []


def write_run(folder, label, seed, scores, state="finished"):
    """Write a run folder with the files that the study reads."""
    folder = folder / f"{label}-{seed}"
    folder.mkdir(parents=True)
    status = {"label": label, "method": "fedavg", "seed": seed, "state": state}
    (folder / "status.json").write_text(json.dumps(status))
    (folder / "rounds.jsonl").write_text(
        json.dumps({"round": 1, "personal_score": list(scores)}) + "\n"
    )
    return RunFolder(folder)


def test_only_parties_that_never_attack_are_evaluated_and_failures_are_counted(tmp_path):
    scores = np.random.default_rng(0).random((3, 5))
    runs = [write_run(tmp_path, "FedAvg", seed, row) for seed, row in enumerate(scores)]
    runs += [
        write_run(tmp_path, "FedAvg", 3, [0] * 5, "failed"),
        write_run(tmp_path, "RFA", 0, [], "failed"),
    ]
    first, second = attacks.summarise_runs(runs, honest=2)
    by_seed = [(row[0] + row[1]) / 2 for row in scores]
    assert first["honest"] == pytest.approx(sum(by_seed) / 3)
    assert first["honest_std"] == pytest.approx(np.std(by_seed) * np.sqrt(3 / 2))
    assert first["worst_party"] == pytest.approx(min(scores[:, 0].mean(), scores[:, 1].mean()))
    assert (first["seeds"], first["failed"]) == (4, 1)
    assert (second["honest"], second["failed"]) == (None, 1)


def test_a_failed_method_is_in_the_table_and_the_figure(tmp_path):
    def row(attack, share, method, label, honest):
        failed = 3 if honest is None else 0
        return {
            "attack": attack, "share": share, "method": method, "label": label, "seeds": 3,
            "failed": failed, "honest": honest, "honest_std": 0.01,
        }  # fmt: skip

    rows = [
        row("none", 0.0, "local", "local SGD", 0.8), row("none", 0.0, "fedavg", "FedAvg", 0.9),
        row("none", 0.0, "ditto", "Ditto, geometric median", 0.85),
        row("scaling", 0.45, "fedavg", "FedAvg", None),
        row("scaling", 0.45, "ditto", "Ditto, geometric median", 0.7),
    ]  # fmt: skip
    assert attacks_report.draw(tmp_path) == {} == attacks_report.blocks(tmp_path)
    (tmp_path / "attacks.csv").write_text(to_csv(rows))
    (tmp_path / "attacks-tuning.json").write_text(to_json({"attacks": {}}))
    lines = attacks_report.blocks(tmp_path)["attacks"].splitlines()
    assert "scaling, × 10, 45%" in lines[2]
    assert lines[4] == "| local SGD | 80.0 ± 1.0 | – | – |"
    assert lines[5] == "| FedAvg | 90.0 ± 1.0 | failed 3 of 3 | failed |"
    assert lines[6] == "| Ditto, geometric median | 85.0 ± 1.0 | 70.0 ± 1.0 | 70.0 |"
    attacks_report.draw(tmp_path)["attacks"].savefig(tmp_path / "attacks.png")
    assert (tmp_path / "attacks.png").stat().st_size > 5000


def test_attacks_from_beginning_to_end(tmp_path):
    run_study(
        "attacks", "--quick", "--jobs", "1", "--methods", "fedavg",
        "--out", tmp_path, "--results", tmp_path / "results",
    )  # fmt: skip
    rows = read_csv(tmp_path / "results" / "attacks.csv")
    assert [(row["attack"], row["share"]) for row in rows] == [
        ("none", 0), ("sign_flip", 0.15), ("inner_product", 0.45),
    ]  # fmt: skip
    study = tmp_path / "quick" / "attacks"
    for folder, row in zip(("attacks", "sign_flip-0.15", "inner_product-0.45"), rows, strict=True):
        lines = (study / folder / "fedavg-0" / "rounds.jsonl").read_text().splitlines()
        scores = json.loads(lines[-1])["personal_score"]
        assert len(scores) == 20
        assert row["honest"] == pytest.approx(sum(scores[:11]) / 11, rel=1e-4)
    assert rows[0]["honest"] > max(rows[1]["honest"], rows[2]["honest"])
    assert "faults = []" in (tmp_path / "results" / "attacks-tuned.toml").read_text()
    chosen = json.loads((tmp_path / "results" / "attacks-tuning.json").read_text())
    assert set(chosen["attacks"]) == {"fedavg"}
