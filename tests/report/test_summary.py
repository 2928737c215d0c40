"""Failed runs and runs below a constant answer give warnings in run folder, output and report."""

import html
import json

import numpy as np
from sample_runs import Sample
from test_headline import make_runs, set_majority_score

from command import fedplus
from fedplus.report.html import render_report
from fedplus.report.report_data import report_data


def write_unscaled_data(folder):
    """Write the data of two hospitals; one input is so large that plain SGD learns nothing."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for party in ("north", "south"):
        ill = (rng.random(120) < 0.25).astype(int)
        dose = 1e4 * rng.normal(size=120)
        age = ill + 0.3 * rng.normal(size=120)
        rows = "".join(f"{a},{b},{c}\n" for a, b, c in zip(dose, age, ill, strict=True))
        (folder / f"{party}.csv").write_text(f"dose,age,y\n{rows}")
    return folder


def test_a_run_below_the_majority_class_warns_and_suggests_standardisation(tmp_path):
    data = write_unscaled_data(tmp_path / "hospitals")
    run = ["run", data, "-m", "fedavg+", "--rounds", "3", "--no-local", "--out"]
    standardised, _ = fedplus(*run, tmp_path / "c")
    assert "below the majority class" not in standardised
    assert json.loads((tmp_path / "c" / "status.json").read_text())["message"] == ""
    run = [*run[:-1], "--set", "standardise=no", "--out"]
    _, error = fedplus(*run, tmp_path / "diverged", status=1)
    assert "standardise=true" in error
    run = [*run[:-1], "--set", "eta=1e-12", "--out"]
    out, _ = fedplus(*run, tmp_path / "a")
    text = " ".join(out.split())
    assert "below the majority class" in text
    assert "standardise=true" in text
    status = json.loads((tmp_path / "a" / "status.json").read_text())
    assert status["state"] == "finished"
    assert "below the majority class" in status["message"]
    assert "standardise=true" in status["message"]
    assert "below the majority class" in (tmp_path / "a" / "report.html").read_text()
    json_output, _ = fedplus(*run, tmp_path / "b", "--json")
    assert "below the majority class" in json.loads(json_output)["warnings"][0]


def test_the_warning_names_the_method_of_finished_runs(tmp_path):
    runs = make_runs(tmp_path, {"fedavg": 0.4, "fedavg+": 0.8})
    runs = [set_majority_score(run, 0.5) for run in runs]
    (warning,) = report_data(runs)["warnings"]
    assert warning.startswith("fedavg ends below the majority class: mean accuracy 40.")
    assert "against 50.0 %" in warning
    for run in runs:  # A run that is still training may improve.
        path = run.path / "status.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"state": "running"}))
    assert report_data(runs)["warnings"] == []


def test_an_error_above_that_of_the_mean_label_gives_a_warning(tmp_path):
    runs = make_runs(tmp_path, {"fedavg": 4.0}, seeds=1, better="lower", score_name="mse")
    (warning,) = report_data([set_majority_score(run, 2.0) for run in runs])["warnings"]
    assert warning.startswith("fedavg ends worse than the mean label: mean mse ")


def test_the_report_shows_why_runs_failed(tmp_path):
    finished = Sample().write(tmp_path / "0")
    reason = "DivergedError: party 3 has NaN in round 20. Lower eta."
    failed = Sample(seed=1).write(tmp_path / "1", upto=20, state="failed", message=reason)
    expected = [f"FedGeoMed+, seed 1, failed: {reason}"]
    assert report_data([finished, failed])["warnings"] == expected
    assert reason in render_report([finished, failed])
    many = [
        Sample(seed=seed).write(tmp_path / f"m{seed}", upto=20, state="failed", message=reason)
        for seed in range(30)
    ]
    assert len(report_data(many)["warnings"]) < 10
    assert "and 25 more failed" in report_data(many)["warnings"][-1]


def test_parties_whose_steps_diverge_are_named_in_output_and_report(tmp_path):
    """The inputs of one of three hospitals have another unit."""
    data = tmp_path / "hospitals"
    data.mkdir()
    rng = np.random.default_rng(0)
    for party, scale in (("north", 1), ("south", 1), ("east", 1e6)):
        x = scale * rng.normal(size=(60, 2))
        y = x[:, 0] / scale + 0.1 * rng.normal(size=60)
        rows = "".join(f"{a},{b},{c}\n" for (a, b), c in zip(x, y, strict=True))
        (data / f"{party}.csv").write_text(f"dose,age,y\n{rows}")
    run = ["run", data, "-m", "fedavg+", "--rounds", "3", "--no-local", "--set", "eta=0.1"]
    run += ["--set", "standardise=no"]
    out, error = fedplus(*run, "--out", tmp_path / "a", "--json")
    (warning,) = (text for text in json.loads(out)["warnings"] if "diverged" in text)
    assert "were given up even so in 3 rounds of east" in warning
    assert "given up" not in error  # It is said once.
    assert warning in html.unescape((tmp_path / "a" / "report.html").read_text())
    printed, _ = fedplus(*run, "--out", tmp_path / "b")
    assert warning in " ".join(printed.split())
