"""``metrics.json``: the metrics of a run are those of its models on the parties' test samples."""

import json

import numpy as np
import pytest
from sklearn import metrics as sklearn

import fedplus as fp
from command import fedplus, refused
from fedplus.experiments.build import build_federation
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.experiments.runner import run_all
from fedplus.experiments.toml_source import TomlSource

SETTINGS = {"rounds": 3, "steps": 3, "parties": 4, "reference.local": False}


def train(folder, data="digits-robust", **settings):
    spec, _ = spec_from_command(data, ["fedgeomed+"], SETTINGS | settings)
    (run,) = run_all(spec, folder / "run")
    return run, build_federation(spec.for_run(0, 0).data, TomlSource())


def test_the_metrics_of_a_run_are_those_of_its_models(tmp_path):
    names = ["accuracy", "balanced_accuracy", "brier"]
    run, federation = train(tmp_path, metrics=names, resamples=50)
    content = run.metrics
    assert list(content["metrics"]) == names
    assert content["resamples"] == 50
    assert content["metrics"]["accuracy"]["personal"] == pytest.approx(
        run.lines[-1]["personal_score"], abs=1e-6
    )
    assert content["metrics"]["accuracy"]["global"] == pytest.approx(
        run.lines[-1]["global_score"], abs=1e-6
    )
    for k, party in enumerate(federation.names):
        x, y = federation.test.party(k)
        p = fp.load_model(run.path, party).predict_proba(x)
        expected = sklearn.balanced_accuracy_score(y, p.argmax(1))
        balanced = content["metrics"]["balanced_accuracy"]
        assert balanced["personal"][k] == pytest.approx(expected, abs=1e-6)
        assert balanced["low"][k] <= balanced["personal"][k] <= balanced["high"][k]
        brier = sklearn.brier_score_loss(y, p, labels=np.arange(10))
        assert content["metrics"]["brier"]["personal"][k] == pytest.approx(brier, abs=1e-5)


def test_numbers_have_the_metrics_of_numbers(tmp_path):
    run, _ = train(tmp_path, "synthetic-regression", features=30)
    metrics = run.metrics["metrics"]
    assert list(metrics) == ["mae", "rmse", "r2"]
    mse = np.square(metrics["rmse"]["personal"])
    assert mse == pytest.approx(run.lines[-1]["personal_score"], rel=1e-4)


def test_intervals_can_be_left_out(tmp_path):
    run, _ = train(tmp_path, resamples=0)
    assert run.metrics["metrics"]["auc"]["low"] == []


def test_the_report_and_the_shell_show_the_metrics(tmp_path):
    run = [
        "run",
        "digits-robust",
        "-m",
        "fedavg",
        "--no-local",
        "--set",
        "parties=4",
        "--rounds",
        "2",
    ]
    out = tmp_path / "run"
    fedplus(*run, "--set", 'metrics=["auc", "f1"]', "--out", out)
    page = (out / "report.html").read_text(encoding="utf-8")
    content = json.loads(
        page.split('<script type="application/json"')[1].split(">", 1)[1].split("</script>")[0]
    )
    (section,) = (each for each in content["sections"] if each["id"] == "metrics")
    table = section["options"][0]["table"]
    assert table["head"] == ["party", "AUC", "F1"]
    assert [row[0] for row in table["rows"]] == [
        "mean over the parties", "0", "1", "2", "3", "the global model, mean",
    ]  # fmt: skip
    values = json.loads((out / "metrics.json").read_text())["metrics"]["auc"]
    assert table["rows"][1][1] == (
        f"{values['personal'][0]:.3g} ({values['low'][0]:.3g} to {values['high'][0]:.3g})"
    )


def test_metrics_that_do_not_fit_are_refused(tmp_path):
    run = ["run", "digits-robust", "-m", "fedavg", "--rounds", "1", "--out", tmp_path / "run"]
    message = refused(*run, "--set", 'metrics=["rmse"]')
    assert "evaluation.metrics must be one of: accuracy, balanced_accuracy" in message
    assert "Did you mean auc?" in refused(*run, "--set", 'metrics=["auk"]')
    assert not (tmp_path / "run").exists()
