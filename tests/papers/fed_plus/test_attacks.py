"""Attacks: who attacks, who is judged; a quick try from beginning to end."""

import json

import numpy as np
import pytest
from papers.fed_plus.results import csv_of, json_of, read_csv
from papers.fed_plus.specs import spec

from command import fedplus
from fedplus.experiments.build import ATTACKS as KNOWN
from fedplus.experiments.run_folder import RunFolder
from papers.fed_plus import attacks, attacks_plot, attacks_text


def test_bad_parties_are_the_last_and_never_more_than_45_percent():
    one = spec("attacks")
    made = attacks.attacked(
        one, [attacks.Case(a, s) for a in attacks.ATTACKS for s in (0.15, 0.45)]
    )
    assert set(attacks.ATTACKS) <= set(KNOWN)
    (fault,) = made["sign_flip-0.15"].train.faults
    assert (fault.parties, fault.attack, fault.settings) == (
        [17, 18, 19],
        "sign_flip",
        {"scale": 3},
    )
    (fault,) = made["inner_product-0.45"].train.faults
    assert fault.parties == list(range(11, 20))
    assert "local" not in {method.name for method in made["scaling-0.45"].methods}
    assert one.train.faults == []


def run(folder, label, seed, scores, state="finished"):
    folder = folder / f"{label}-{seed}"
    folder.mkdir(parents=True)
    status = {"label": label, "method": "fedavg", "seed": seed, "state": state}
    (folder / "status.json").write_text(json.dumps(status))
    (folder / "rounds.jsonl").write_text(
        json.dumps({"round": 1, "personal_score": list(scores)}) + "\n"
    )
    return RunFolder(folder)


def test_parties_that_never_attack_are_judged_and_failures_counted(tmp_path):
    scores = np.random.default_rng(0).random((3, 5))
    runs = [run(tmp_path, "FedAvg", seed, row) for seed, row in enumerate(scores)]
    runs += [run(tmp_path, "FedAvg", 3, [0] * 5, "failed"), run(tmp_path, "RFA", 0, [], "failed")]
    first, second = attacks.rows_of(runs, honest=2)
    by_seed = [(row[0] + row[1]) / 2 for row in scores]
    assert first["honest"] == pytest.approx(sum(by_seed) / 3)
    assert first["honest_std"] == pytest.approx(np.std(by_seed) * np.sqrt(3 / 2))
    assert first["worst_party"] == pytest.approx(min(scores[:, 0].mean(), scores[:, 1].mean()))
    assert (first["seeds"], first["failed"]) == (4, 1)
    assert (second["honest"], second["failed"]) == (None, 1)


def test_a_method_that_failed_is_told_and_drawn(tmp_path):
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
    assert attacks_plot.draw(tmp_path) == {} == attacks_text.blocks(tmp_path)
    (tmp_path / "attacks.csv").write_text(csv_of(rows))
    (tmp_path / "attacks-tuning.json").write_text(json_of({"attacks": {}}))
    told = attacks_text.blocks(tmp_path)["attacks"].splitlines()
    assert "scaling, × 10, 45%" in told[2]
    assert told[4] == "| local SGD | 80.0 ± 1.0 | – | – |"
    assert told[5] == "| FedAvg | 90.0 ± 1.0 | failed 3 of 3 | failed |"
    assert told[6] == "| Ditto, geometric median | 85.0 ± 1.0 | 70.0 ± 1.0 | 70.0 |"
    attacks_plot.draw(tmp_path)["attacks"].savefig(tmp_path / "attacks.png")
    assert (tmp_path / "attacks.png").stat().st_size > 5000


def test_attacks_from_beginning_to_end(tmp_path):
    fedplus(
        "paper", "attacks", "--quick", "--jobs", "1", "--methods", "fedavg",
        "--out", tmp_path, "--results", tmp_path / "kept",
    )  # fmt: skip
    rows = read_csv(tmp_path / "kept" / "attacks.csv")
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
    assert "faults = []" in (tmp_path / "kept" / "attacks-tuned.toml").read_text()
    chosen = json.loads((tmp_path / "kept" / "attacks-tuning.json").read_text())
    assert set(chosen["attacks"]) == {"fedavg"}
