"""Table 2 from beginning to end: stated, tuned and collected, on data that needs no download."""

import json

import numpy as np
from papers.fed_plus.results import read_csv
from study_command import run_study

ARGUMENTS = (
    "table2", "--quick", "--jobs", "1", "--only", "synthetic-regression",
    "--methods", "local,fedgeomed+",
)  # fmt: skip


def test_table_2_from_beginning_to_end(tmp_path):
    results = tmp_path / "results"
    out, _ = run_study(*ARGUMENTS, "--out", tmp_path, "--results", results)
    assert "FedGeoMed+" in out
    records = read_csv(results / "table2.csv")
    assert [(record["settings"], record["method"]) for record in records] == [
        (kind, method)
        for kind in ("stated", "tuned")
        for method in ("local", "fedgeomed+", "majority")
    ]
    published = {record["method"]: record["paper"] for record in records if record["paper"]}
    assert published == {"fedgeomed+": 1048}
    study = tmp_path / "quick" / "table2"
    for record in records[:2]:
        label = {"local": "local-sgd"}.get(record["method"], record["method"])
        run = study / "table2-synthetic-regression" / f"{label}-0"
        last = json.loads((run / "rounds.jsonl").read_text().splitlines()[-1])
        assert np.isclose(record["mean"], np.mean(last["personal_score"]), rtol=1e-5)
        assert np.isclose(record["outliers"], last["personal_score"][-1], rtol=1e-5)
    tuning = json.loads((results / "table2-tuning.json").read_text())
    chosen = tuning["table2-synthetic-regression"]["fedgeomed+"]
    assert len(chosen["trials"]) == 2
    finished = [
        trial for trial in chosen["trials"] if trial["mean"] is not None
    ]  # Others diverged.
    best = min(finished, key=lambda trial: trial["mean"])
    assert chosen["settings"] == best["settings"]
    spec = (results / "table2-synthetic-regression-tuned.toml").read_text()
    assert f"delta = {best['settings']['delta']}" in spec
    before = {path: path.read_bytes() for path in study.rglob("status.json")}
    assert len(before) == 4
    run_study(*ARGUMENTS, "--out", tmp_path)
    assert {path: path.read_bytes() for path in study.rglob("status.json")} == before
