"""A run that has learned nothing, or failed, says so: in the run folder, the output, the report."""

import json

import numpy as np
from samples import Sample
from test_headline import runs, with_majority

from command import fedplus
from fedplus.report.html import render_report
from fedplus.report.report_data import report_data


def wards(folder):
    """Two hospitals; one input is so large that plain SGD learns nothing."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for who in ("north", "south"):
        ill = (rng.random(120) < 0.25).astype(int)
        dose = 1e4 * rng.normal(size=120) + 3e4
        age = ill + 0.3 * rng.normal(size=120)
        rows = "".join(f"{a},{b},{c}\n" for a, b, c in zip(dose, age, ill, strict=True))
        (folder / f"{who}.csv").write_text(f"dose,age,y\n{rows}")
    return folder


def test_a_run_below_the_majority_class_warns_and_suggests_standardisation(tmp_path):
    data = wards(tmp_path / "wards")
    run = ["run", data, "-m", "fedavg+", "--rounds", "3", "--no-local", "--out"]
    out, _ = fedplus(*run, tmp_path / "a")
    said = " ".join(out.split())
    assert "below the majority class" in said
    assert "standardise=true" in said
    status = json.loads((tmp_path / "a" / "status.json").read_text())
    assert status["state"] == "finished"
    assert "below the majority class" in status["message"]
    assert "standardise=true" in status["message"]
    assert "below the majority class" in (tmp_path / "a" / "report.html").read_text()
    told, _ = fedplus(*run, tmp_path / "b", "--json")
    assert "below the majority class" in json.loads(told)["warnings"][0]
    good, _ = fedplus(*run, tmp_path / "c", "--set", "standardise=true")
    assert "below the majority class" not in good
    assert json.loads((tmp_path / "c" / "status.json").read_text())["message"] == ""


def test_of_several_methods_each_is_named(tmp_path):
    found = [with_majority(run, 0.5) for run in runs(tmp_path, {"fedavg": 0.4, "fedavg+": 0.8})]
    (said,) = report_data(found)["warnings"]
    assert said.startswith("fedavg ends below the majority class: mean accuracy 40.")
    assert "against 50.0 %" in said
    for run in found:  # A run that goes on may still get there.
        path = run.path / "status.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"state": "running"}))
    assert report_data(found)["warnings"] == []


def test_an_error_above_that_of_the_mean_label_warns(tmp_path):
    found = runs(tmp_path, {"fedavg": 4.0}, seeds=1, better="lower", score_name="mse")
    (said,) = report_data([with_majority(run, 2.0) for run in found])["warnings"]
    assert said.startswith("fedavg ends worse than the mean label: mean mse ")


def test_the_reason_of_a_failed_run_is_in_the_report(tmp_path):
    good = Sample().write(tmp_path / "0")
    why = "DivergedError: party 3 has NaN in round 20. Lower eta."
    bad = Sample(seed=1).write(tmp_path / "1", upto=20, state="failed", message=why)
    assert report_data([good, bad])["warnings"] == [f"FedGeoMed+, seed 1, failed: {why}"]
    assert why in render_report([good, bad])
    many = [
        Sample(seed=seed).write(tmp_path / f"m{seed}", upto=20, state="failed", message=why)
        for seed in range(30)
    ]
    assert len(report_data(many)["warnings"]) < 10
    assert "and 25 more failed" in report_data(many)["warnings"][-1]
