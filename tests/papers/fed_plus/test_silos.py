"""Real silos: gains compared with an independent computation, and a quick trial."""

import json
import tomllib

import numpy as np
import pytest
from papers.fed_plus.results import read_csv, to_csv, to_json
from scipy import stats
from study_command import run_study

from fedplus.experiments.build import build_federation
from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.runner import run_all
from fedplus.experiments.spec import parse_spec
from fedplus.experiments.toml_source import TomlSource
from papers.fed_plus import silos, silos_report, write_readme

NAMES, SAMPLES = ["a", "b", "c"], [30, 10, 20]


def write_run(folder, method, seed, scores, better="higher", state="finished"):
    """Write a run folder with the files that the study reads."""
    folder = folder / f"{method}-{seed}"
    folder.mkdir(parents=True)
    status = {"method": method, "seed": seed, "better": better, "state": state}
    (folder / "status.json").write_text(json.dumps(status))
    (folder / "parties.json").write_text(json.dumps({"names": NAMES, "train": SAMPLES}))
    (folder / "rounds.jsonl").write_text(
        json.dumps({"round": 1, "personal_score": list(scores)}) + "\n"
    )
    return RunFolder(folder)


def write_runs(folder, better, seeds=4):
    rng = np.random.default_rng(0)
    local, joint = rng.uniform(0.4, 0.9, (2, seeds, 3))
    joint[:, 0] = local[:, 0] + 0.05 + 0.001 * rng.standard_normal(seeds)
    runs = []
    for method, scores in (("local", local), ("fedavg+", joint)):
        runs += [write_run(folder, method, s, row, better) for s, row in enumerate(scores)]
    return runs, local, joint


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_gains_are_paired_by_seed_and_plus_is_better(better, tmp_path):
    runs, local, joint = write_runs(tmp_path, better)
    rows = silos.party_gains(runs)
    assert [row["party"] for row in rows] == NAMES
    for k, row in enumerate(rows):
        gains = [
            100 * (b - a) if better == "higher" else 100 * (a - b) / a
            for a, b in zip(local[:, k], joint[:, k], strict=True)
        ]
        assert row["gain"] == pytest.approx(sum(gains) / 4)
        low, high = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
        assert row["gain"] - row["half_width"] == pytest.approx(low)
        assert silos_report.significant_sign(row) == (1 if low > 0 else -1 if high < 0 else 0)
    assert silos_report.significant_sign(rows[0]) == (1 if better == "higher" else -1)


def test_with_one_seed_no_gain_is_significant(tmp_path):
    runs, _, _ = write_runs(tmp_path, "higher", seeds=1)
    rows = silos.party_gains(runs)
    assert {row["half_width"] for row in rows} == {None}
    assert {silos_report.significant_sign(row) for row in rows} == {0}


def test_failed_runs_and_seeds_without_local_training_are_ignored(tmp_path):
    runs, local, joint = write_runs(tmp_path, "higher")
    runs += [write_run(tmp_path / "x", "fedavg", 0, local[0], state="failed")]
    runs += [write_run(tmp_path / "y", "fedavg+", 9, joint[0])]
    rows = silos.party_gains(runs)
    assert {row["method"] for row in rows} == {"fedavg+"}
    assert {row["seeds"] for row in rows} == {4}
    assert silos.party_gains([run for run in runs if run.status["method"] != "local"]) == []


def test_a_party_that_diverged_has_an_infinite_loss_that_is_not_significant(tmp_path):
    runs, _, _ = write_runs(tmp_path, "lower", seeds=2)
    runs += [write_run(tmp_path, "local", 2, (0.5, 0.5, 0.5), "lower")]
    runs += [write_run(tmp_path, "fedavg+", 2, (None, 0.1, 0.1), "lower")]
    first, *others = silos.party_gains(runs)
    assert (first["gain"], first["score"]) == (-np.inf, np.inf)
    assert silos_report.significant_sign(first) == 0
    assert all(np.isfinite(row["gain"]) and np.isfinite(row["half_width"]) for row in others)


def test_the_halves_are_by_number_of_samples():
    records = [{"samples": s, "gain": g} for s, g in ((10, 4.0), (40, 1.0), (20, 2.0), (30, 0.0))]
    assert silos_report.mean_gain_of_halves(records) == (3.0, 0.5)


def test_the_verdict_names_the_best_method_the_best_variant_and_who_diverged():
    def rows(method, gains, better):
        return [
            {"data": "schools", "method": method, "gain": g, "half_width": 1.0, "better": better}
            for g in gains
        ]

    records = [
        *rows("ditto", (8.0, 9.0, 0.5), "lower"), *rows("fedavg", (-5.0, -6.0, 1.0), "lower"),
        *rows("fedgeomed+", (6.0, 7.0, -np.inf), "lower"), *rows("fedavg+", (0.0, 0.0, 0.0), "lower"),
    ]  # fmt: skip
    assert silos_report.verdict(records).endswith(
        "schools: Ditto +8.0% of the error (2 and 0 of 3) and "
        "FedGeoMed+ +6.0% of the error (2 and 1 of 3; 1 diverged under some seed)"
    )


def test_table_and_figure_need_only_the_small_files(tmp_path):
    runs, _, _ = write_runs(tmp_path / "runs", "higher")
    rows = [{"data": "hospitals", **row} for row in silos.party_gains(runs)]
    assert silos_report.draw(tmp_path) == {} == silos_report.blocks(tmp_path)
    (tmp_path / "silos.csv").write_text(to_csv(rows))
    chosen = {"silos-hospitals": {"fedavg+": {"settings": {"eta": 0.1}, "at_edge": ["eta"]}}}
    (tmp_path / "silos-tuning.json").write_text(to_json(chosen))
    blocks = silos_report.blocks(tmp_path)
    assert "1 of 3" in blocks["silos"]
    assert "eta = 0.1†" in blocks["silos-settings"]
    silos_report.draw(tmp_path)["silos"].savefig(tmp_path / "silos.png")
    assert (tmp_path / "silos.png").stat().st_size > 5000


@pytest.mark.usefixtures("real_data")
def test_hospitals_from_beginning_to_end(tmp_path):
    run_study(
        "silos", "--quick", "--jobs", "1", "--only", "hospitals", "--methods", "fedavg+",
        "--out", tmp_path, "--results", tmp_path / "results",
    )  # fmt: skip
    rows = read_csv(tmp_path / "results" / "silos.csv")
    assert [row["party"] for row in rows] == [
        "cleveland", "hungarian", "switzerland", "va_long_beach",
    ]  # fmt: skip
    study = tmp_path / "quick" / "silos" / "silos-hospitals"
    alone, joined = (
        json.loads((study / f"{name}-0" / "rounds.jsonl").read_text().splitlines()[-1])
        for name in ("local-sgd", "fedavg+")
    )
    for row, a, b in zip(rows, alone["personal_score"], joined["personal_score"], strict=True):
        assert row["gain"] == pytest.approx(100 * (b - a), abs=1e-3)
    chosen = json.loads((tmp_path / "results" / "silos-tuning.json").read_text())["silos-hospitals"]
    assert set(chosen) == {"local", "fedavg+"}  # Local training is tuned as well.
    assert (tmp_path / "results" / "silos.svg").stat().st_size > 0


def test_no_party_ends_worse_than_untrained_because_its_steps_diverged():
    """All parties, methods and seeds of the committed results, on test samples."""
    rows = read_csv(write_readme.RESULTS / "silos-diverged.csv")
    assert {row["data"] for row in rows} == {"hospitals", "patients", "schools", "writers"}
    schools = {(row["party"], row["seed"]) for row in rows if row["data"] == "schools"}
    assert schools == {(108, seed) for seed in range(5)}
    for row in rows:
        sign = 1 if row["better"] == "higher" else -1
        assert sign * row["score"] > sign * row["untrained"], row
        assert row["given_up"] == 0, row


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(("data", "seed", "party"), [("patients", 2, 36), ("schools", 1, 108)])
def test_a_party_whose_steps_diverge_ends_with_a_lower_test_error(data, seed, party, tmp_path):
    """Before such steps were repeated with smaller ones, these parties' models became infinite."""
    file = write_readme.RESULTS / f"silos-{data}-tuned.toml"
    content = tomllib.loads(file.read_text())
    content["seeds"] = [seed]
    content["methods"] = [m for m in content["methods"] if m["name"] in ("fedavg+", "fedgeomed+")]
    spec = parse_spec(content, TomlSource())
    runs = run_all(spec, tmp_path)
    rows = silos.diverged_parties(runs)
    assert {row["method"] for row in rows} == {"fedavg+", "fedgeomed+"}
    assert {int(row["party"]) for row in rows} == {party}
    federation = build_federation(spec.data.model_copy(update={"seed": seed}), TomlSource())
    _, y = federation.test.party(federation.names.index(str(party)))
    committed = read_csv(write_readme.RESULTS / "silos-diverged.csv")
    for row in rows:
        assert row["untrained"] == pytest.approx(
            np.mean(np.square(y, dtype=float))
        )  # It predicts 0.
        assert row["score"] < row["untrained"]
        (same,) = (
            old for old in committed
            if (old["data"], old["method"], old["seed"], old["party"])
            == (data, row["method"], seed, party)
        )  # fmt: skip
        assert row["score"] == pytest.approx(same["score"], rel=0.05)
