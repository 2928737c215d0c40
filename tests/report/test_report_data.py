"""The content of the report agrees with independent computations from the files of the runs."""

import json
import re

import numpy as np
import pytest
from sample_runs import Sample, study

from fedplus.check import SettingError
from fedplus.experiments.run_folder import ENV, PARTIES, ROUNDS, SPEC, RunFolder
from fedplus.report import downsample
from fedplus.report.formatting import round_for_json
from fedplus.report.html import render_report, write_report
from fedplus.report.report_data import report_data
from fedplus.report.scheduled_settings import describe_schedules

HOSTILE = "</script><img src=x onerror=alert(1)>"


def section(data, name):
    return next(s for s in data["sections"] if s["id"] == name)


def read_lines(run):
    return [json.loads(line) for line in (run.path / ROUNDS).read_text().splitlines()]


def test_the_seeds_of_a_method_are_one_curve_with_a_band(tmp_path):
    runs = study(tmp_path, methods=("fedavg", "fedgeomed+"), seeds=3)
    first = section(report_data(runs), "learning")["options"][0]["charts"][0]["lines"]
    assert [line["label"] for line in first] == ["FedAvg", "FedGeoMed+"]
    for line, seeds in zip(first, (runs[:3], runs[3:]), strict=True):
        scores = np.array(
            [[np.mean(r["personal_score"]) for r in read_lines(run)] for run in seeds]
        )
        np.testing.assert_allclose(line["y"], 100 * scores.mean(0), rtol=6e-4)
        np.testing.assert_allclose(line["spread"], 100 * scores.std(0, ddof=1), rtol=6e-4)


def test_the_table_has_means_and_standard_deviations_over_seeds(tmp_path):
    runs = study(tmp_path, methods=("fedavg", "fedavg+"), seeds=4, outliers=2)
    table = report_data(runs)["summary"]
    last = np.array([read_lines(run)[-1]["personal_score"] for run in runs[4:]])
    for cell, values in zip(
        table["rows"][1][1:5],
        (last.mean(1), last.min(1), last[:, 2:].mean(1), last[:, :2].mean(1)),
        strict=True,
    ):
        assert cell == f"{100 * values.mean():.1f} ± {100 * values.std(ddof=1):.1f} %"
    assert table["head"] == ["", "mean", "worst party", "the others", "outliers", "p", "seeds"]
    assert table["best"] == [1]
    assert [row[0] for row in table["rows"][2:]] == [
        "local SGD",
        "majority class",
    ]


def test_a_run_of_the_method_local_replaces_the_local_reference(tmp_path):
    table = report_data(study(tmp_path, methods=("local", "fedavg+"), seeds=1, outliers=0))[
        "summary"
    ]
    assert [row[0] for row in table["rows"]] == [
        "Local",
        "FedAvg+",
        "majority class",
    ]
    assert table["head"] == ["", "mean", "worst party", "seeds"]


def summary_row(data, label):
    (row,) = [row for row in data["summary"]["rows"] if row[0] == label]
    return row


def set_final_scores(run, personal, local):
    """Set the parties' personal scores at the last line, and their scores with local training."""
    lines = read_lines(run)
    lines[-1]["personal_score"] = personal
    (run.path / ROUNDS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    parties = json.loads((run.path / PARTIES).read_text())
    (run.path / PARTIES).write_text(json.dumps({**parties, "local": local}))
    return run


def test_gains_name_the_biggest_winner_and_loser(tmp_path):
    run = Sample(parties=4, names=("a", "b", "c", "d")).write(tmp_path / "run")
    set_final_scores(run, [0.9, 0.5, 0.7, 0.8], [0.8, 0.75, 0.7, 0.5])
    option = section(report_data([run]), "gains")["options"][0]
    assert "2 of 4 parties gain over local SGD and 1 loses" in option["finding"]
    assert "biggest winner is party d (+30.0 points)" in option["finding"]
    assert "biggest loser is party b (−25.0 points)" in option["finding"]
    assert option["charts"][0]["names"] == ["b", "c", "a", "d"]
    assert option["charts"][0]["gains"] == [-25, 0, 10, 30]


def test_a_lower_error_is_a_gain(tmp_path):
    run = Sample(parties=2, score_name="rmse", better="lower").write(tmp_path / "run")
    set_final_scores(run, [0.5, 0.9], [0.8, 0.7])
    data = report_data([run])
    option = section(data, "gains")["options"][0]
    assert "1 of 2 parties gains over local SGD and 1 loses" in option["finding"]
    assert "biggest winner is party 0 (−0.3 rmse)" in option["finding"]
    assert data["summary"]["rows"][0][2] == "0.9"


def test_without_local_scores_gains_are_over_the_global_model(tmp_path):
    data = report_data([Sample(local=False).write(tmp_path / "run")])
    assert "gain over the global model" in section(data, "gains")["options"][0]["finding"]


def test_the_certificate_of_theorem_1_reports_rises_of_the_objective(tmp_path):
    run = Sample(objective=True).write(tmp_path / "steady")
    assert (
        "never rises under FedGeoMed+"
        in section(report_data([run]), "certificate")["options"][0]["finding"]
    )
    lines = read_lines(run)
    lines[4]["objective"] = 1.1 * lines[3]["objective"]
    (run.path / ROUNDS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    finding = section(report_data([run]), "certificate")["options"][0]["finding"]
    assert finding == "Under FedGeoMed+ it rises, at most by 10 % at round 50."
    lines[3]["theorem_1"] = False  # Say, a party joined in round 45.
    (run.path / ROUNDS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    finding = section(report_data([run]), "certificate")["options"][0]["finding"]
    assert "never rises under FedGeoMed+" in finding
    for line in lines:
        line["theorem_1"] = False
    (run.path / ROUNDS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    finding = section(report_data([run]), "certificate")["options"][0]["finding"]
    assert finding.startswith("Theorem 1 never applies to FedGeoMed+")


def test_settings_over_time_are_described_in_words(tmp_path):
    run = Sample().write(tmp_path / "run")
    assert report_data([run])["settings"][0]["note"] == "Seeds: 0."
    (run.path / SPEC).write_text(
        """
        [[methods]]
        name = "layers"
        sigma = 0.5
        lam = { schedule = "warm-up", rounds = 25 }
        eta = { schedule = "cosine", first = 0.1, last = 0.01, rounds = 50 }
        server_optimizer = { name = "adam", eta = { schedule = "inverse", first = 0.2, rate = 0.5 } }
        [methods.parts."head/*"]
        psi = "l2"
        delta = { schedule = "linear", first = 1, last = 0.3, rounds = 9 }
        """,
        encoding="utf-8",
    )
    assert report_data([run])["settings"][0]["note"] == (
        "Seeds: 0. "
        "λ: 1 in rounds 1 to 25, then 0. "
        "η: 0.1 in round 1, cosine change to 0.01 in round 51 and afterwards. "
        "η of server_optimizer: 0.2/(1 + 0.5 t) after t rounds. "
        "δ of head/*: 1 in round 1, linear change to 0.3 in round 10 and afterwards."
    )


def test_an_environment_is_shown_once_for_all_methods_that_ran_in_it(tmp_path):
    runs = [Sample(method=name).write(tmp_path / name) for name in ("fedavg", "local", "fedavg+")]
    env = json.loads((runs[2].path / ENV).read_text())
    (runs[2].path / ENV).write_text(json.dumps(env | {"device": "gpu"}))
    first, second = report_data(runs)["environments"]
    assert {*first["labels"], *second["labels"]} == {"FedAvg", "Local", "FedAvg+"}
    assert dict(second["rows"])["device"] == "gpu" or dict(first["rows"])["device"] == "gpu"
    assert "command" not in dict(first["rows"])


@pytest.mark.parametrize(
    "damaged",
    [
        "= x", "methods = 3", "methods = [3]", '[[methods]]\nlam = { schedule = "other" }',
        '[[methods]]\nlam = { schedule = [1] }', '[[methods]]\nlam = { schedule = "linear" }',
        '[[methods]]\nlam = { schedule = "warm-up", rounds = "3" }',
        '[[methods]]\nlam = { schedule = "linear", first = [1, 2], last = 0, rounds = 3 }',
    ],
)  # fmt: skip
def test_damaged_schedules_are_not_described(damaged):
    assert describe_schedules(damaged) == []


def test_sections_without_data_are_left_out(tmp_path):
    ids = [s["id"] for s in report_data(study(tmp_path / "a", seeds=1))["sections"]]
    assert ids == ["learning", "heat", "gains", "change", "norms", "aggregator"]
    full = study(tmp_path / "b", seeds=1, path=True, objective=True)
    assert {s["id"] for s in report_data(full)["sections"]} == {*ids, "path", "certificate"}


def test_a_report_can_have_runs_in_every_state(tmp_path):
    runs = [
        Sample(method="fedavg").write(tmp_path / "done"),
        Sample(method="fedavg", seed=1).write(tmp_path / "half", upto=50, state="stopped"),
        Sample(method="fedavg+", parties=7, rounds=60, every=20).write(tmp_path / "other"),
        Sample(method="rfa", data="school").write(tmp_path / "begun", upto=0, state="running"),
    ]
    (tmp_path / "begun" / PARTIES).unlink()
    data = report_data(runs)
    assert (
        "No run on school has been evaluated yet. 1 of 4 runs is still running. "
        "1 of 4 runs was stopped before its end." in data["verdict"]
    )
    curve = section(data, "learning")["options"][0]["charts"][0]["lines"][0]
    assert curve["x"] == list(range(10, 101, 10))
    assert curve["spread"][:5] != [None] * 5
    assert curve["spread"][5:] == [None] * 5
    assert summary_row(data, "rfa, school")[1:3] == ["–", "–"]
    render_report(runs)


def test_a_failed_run_is_counted_but_not_averaged(tmp_path):
    finished = Sample().write(tmp_path / "0")
    failed = Sample(seed=1).write(tmp_path / "1", upto=20, state="failed", message="no memory")
    both, alone = report_data([finished, failed]), report_data([finished])
    assert summary_row(both, "FedGeoMed+")[:-1] == summary_row(alone, "FedGeoMed+")
    assert summary_row(both, "FedGeoMed+")[-1] == "failed 1 of 2"
    assert both["verdict"].endswith("1 of 2 runs failed.")
    assert summary_row(report_data([failed]), "FedGeoMed+")[1] == "–"


def test_a_run_without_evaluations_has_no_sections(tmp_path):
    data = report_data([Sample().write(tmp_path / "run", upto=0, state="running")])
    assert data["sections"] == []


def test_a_diverged_party_is_not_hidden_in_the_mean(tmp_path):
    run = Sample(parties=3).write(tmp_path / "run")
    set_final_scores(run, [None, 0.5, 0.7], None)
    lines = read_lines(run)
    for line in lines:
        line |= {"v_norm": [None] * 3, "global_score": [None] * 3}
    lines[-1]["personal"] = {"mean": None, "worst": None}
    (run.path / ROUNDS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = report_data([run, Sample(method="fedavg", parties=3).write(tmp_path / "other")])
    assert data["summary"]["rows"][1][1:3] == ["–", "–"]
    assert data["verdict"].startswith("FedAvg has the highest mean accuracy")
    assert (
        "Under FedGeoMed+ 1 score at the last evaluation is not a finite number." in data["verdict"]
    )
    curve = section(data, "learning")["options"][0]["charts"][0]["lines"][1]
    assert curve["x"][-1] == 90
    assert report_data([run])["verdict"].startswith("No method has a finite score for every party.")
    render_report([run])


def test_runs_with_different_scores_have_no_common_report(tmp_path):
    runs = [Sample().write(tmp_path / "a"), Sample(score_name="rmse").write(tmp_path / "b")]
    with pytest.raises(SettingError, match=r"must have one score, got accuracy, rmse\. Make"):
        report_data(runs)


def test_parties_of_other_seeds_are_not_averaged_when_they_differ(tmp_path):
    runs = [
        Sample(names=tuple("abcdefghij"), seed=0).write(tmp_path / "0"),
        Sample(names=tuple("klmnopqrst"), seed=1).write(tmp_path / "1"),
    ]
    heat = section(report_data(runs), "heat")
    assert "those of each method's first seed" in heat["note"]
    last = read_lines(runs[0])[-1]["personal_score"]
    shown = dict(
        zip(heat["options"][0]["charts"][0]["y"], heat["options"][0]["charts"][0]["z"], strict=True)
    )
    assert [shown[name][-1] for name in "abcdefghij"] == round_for_json(100 * np.array(last))


def test_names_cannot_inject_html(tmp_path):
    run = Sample(parties=3, names=(HOSTILE, "b", "c"), label=HOSTILE).write(tmp_path / "run")
    html = render_report([run], title=HOSTILE, command=HOSTILE)
    assert HOSTILE not in html
    assert "<img" not in html.split("<script")[1]
    payload = re.search(r'<script type="application/json" id="content">(.*?)</script>', html, re.S)
    assert json.loads(payload[1])["command"] == HOSTILE


def test_the_report_notes_that_data_is_a_stand_in(tmp_path):
    run = Sample(stand_in_for="femnist", data="femnist-standin").write(tmp_path / "run")
    assert "femnist-standin is a stand-in for femnist" in report_data([run])["stand_in"]


def test_a_large_federation_fits_into_6_mb(tmp_path):
    methods = ("fedavg", "fedprox", "fedavg+", "fedcomed+", "fedgeomed+")
    runs = study(tmp_path, methods, seeds=1, parties=1000, every=4, path=True, objective=True)
    path = write_report(runs, tmp_path / "report.html")
    assert path.stat().st_size < 6e6
    heat = section(report_data(runs), "heat")["options"][0]
    assert len(heat["charts"][0]["y"]) == 200
    assert "Shown are 200 of 1,000 parties" in heat["finding"]


def test_many_methods_and_rounds_fit_into_6_mb(tmp_path):
    runs = [
        Sample(label=f"σ = {i}", rounds=2000, every=20, parties=100).write(tmp_path / str(i))
        for i in range(12)
    ]
    assert len(render_report(runs).encode()) < 6e6


def test_downsampling_keeps_peaks_and_ends():
    y = np.zeros(10_000)
    y[4321] = 1.0
    assert 4321 in downsample.peak_indices(y, 100)
    assert list(downsample.even_indices(1000, 3)) == [0, 500, 999]
    assert list(downsample.end_indices(10, 4)) == [0, 1, 8, 9]


def test_a_damaged_run_is_an_error(tmp_path):
    run = Sample().write(tmp_path / "run")
    (run.path / ROUNDS).write_text("{\n")
    with pytest.raises(SettingError, match="is damaged"):
        report_data([RunFolder(run.path)])


def test_errors_of_very_different_sizes_get_a_logarithmic_axis(tmp_path):
    run = Sample(parties=2, score_name="mse", better="lower").write(tmp_path / "run")
    dots, boxes = section(report_data([run]), "gains")["options"][0]["charts"]
    assert not dots["log"]
    set_final_scores(run, [0.5, 900.0], [0.8, 0.7])
    dots, boxes = section(report_data([run]), "gains")["options"][0]["charts"]
    assert dots["log"]
    assert boxes["log"]
    assert section(report_data([run]), "heat")["options"][0]["charts"][0]["log"]


def test_a_failed_method_is_never_the_best(tmp_path):
    finished = Sample(method="fedavg", label="FedAvg").write(tmp_path / "finished")
    failed = Sample(method="ditto", label="Ditto").write(tmp_path / "failed", state="failed")
    set_final_scores(failed, [0.99] * 10, None)
    data = report_data([finished, failed])
    assert "FedAvg has a mean accuracy of" in data["verdict"]
    assert "best" not in data["verdict"]
    assert report_data([failed])["verdict"].startswith("No run on digits-robust has succeeded.")
