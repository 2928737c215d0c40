"""Table 2 from beginning to end: stated, tuned, collected; on data that needs no download."""

import json

import numpy as np
from papers.fed_plus.results import read_csv

from command import fedplus

COMMAND = (
    "paper", "table2", "--quick", "--jobs", "1", "--only", "synthetic-regression",
    "--methods", "local,fedgeomed+",
)  # fmt: skip


def test_table_2_from_beginning_to_end(tmp_path):
    out, _ = fedplus(*COMMAND, "--out", tmp_path, "--results", tmp_path / "kept")
    assert "FedGeoMed+" in out
    records = read_csv(tmp_path / "kept" / "table2.csv")
    told = [(one["settings"], one["method"]) for one in records]
    assert told == [
        (kind, method)
        for kind in ("stated", "tuned")
        for method in ("local", "fedgeomed+", "majority")
    ]
    assert {one["method"]: one["paper"] for one in records if one["paper"]} == {"fedgeomed+": 1048}
    study = tmp_path / "quick" / "table2"
    for one in records[:2]:
        label = {"local": "local-sgd"}.get(one["method"], one["method"])
        run = study / "table2-synthetic-regression" / f"{label}-0"
        last = json.loads((run / "rounds.jsonl").read_text().splitlines()[-1])
        assert np.isclose(one["mean"], np.mean(last["personal_score"]), rtol=1e-5)
        assert np.isclose(one["outliers"], last["personal_score"][-1], rtol=1e-5)
    tuning = json.loads((tmp_path / "kept" / "table2-tuning.json").read_text())
    chosen = tuning["table2-synthetic-regression"]["fedgeomed+"]
    assert len(chosen["trials"]) == 2
    best = min(chosen["trials"], key=lambda trial: trial["mean"])
    assert chosen["settings"] == best["settings"]
    spec = (tmp_path / "kept" / "table2-synthetic-regression-tuned.toml").read_text()
    assert f"delta = {best['settings']['delta']}" in spec
    before = {path: path.read_bytes() for path in study.rglob("status.json")}
    assert len(before) == 4
    fedplus(*COMMAND, "--out", tmp_path)
    assert {path: path.read_bytes() for path in study.rglob("status.json")} == before
