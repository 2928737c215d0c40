"""Comparison tables agree with independent computations, and their formats can be read back."""

import csv
import io
import json
import re

import numpy as np
import pytest
from scipy import stats

from fedplus.check import SettingError
from fedplus.experiments.run_folder import RunFolder
from fedplus.report import table_formats
from fedplus.report.tables import comparison_table

NAMES = ["a", "b", "c", "d"]


def write_run(
    path, label, seed, scores, *, method=None, state="finished", local=None, better="higher",
    score_name="accuracy", outliers=("d",),
):  # fmt: skip
    """Write a run folder with one evaluated round."""
    path = path / f"{label}-{seed}".replace("/", "-")
    path.mkdir()
    status = {
        "label": label, "method": method or label, "seed": seed, "state": state,
        "round": 9, "rounds": 9, "score_name": score_name, "better": better,
        "data": "made-up", "message": "",
    }  # fmt: skip
    (path / "status.json").write_text(json.dumps(status))
    parties = {"names": NAMES, "outliers": list(outliers), "local": local, "majority": [0.25] * 4}
    (path / "parties.json").write_text(json.dumps(parties))
    line = {"round": 9, "personal_score": list(scores), "global_score": [0.5] * 4}
    (path / "rounds.jsonl").write_text(json.dumps(line) + "\n")
    return RunFolder(path)


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    return {
        label: np.clip(level + 0.03 * rng.normal(size=(5, 4)), 0, 1)
        for label, level in {"good": 0.9, "close": 0.89, "poor": 0.6}.items()
    }


@pytest.fixture
def table(tmp_path, scores):
    return comparison_table(
        [
            write_run(tmp_path, label, seed, by_seed[seed])
            for label, by_seed in scores.items()
            for seed in range(5)
        ]
    )


def row(table, label):
    (row,) = [row for row in table.rows if row.label == label]
    return row


def test_columns_have_one_value_per_seed(table, scores):
    for label, by_seed in scores.items():
        columns = row(table, label).columns
        expected = {
            "mean": by_seed.mean(axis=1), "worst party": by_seed.min(axis=1),
            "the others": by_seed[:, :3].mean(axis=1), "outliers": by_seed[:, 3],
        }  # fmt: skip
        assert set(columns) == set(expected)
        for name, values in expected.items():
            assert columns[name].tolist() == pytest.approx(values.tolist())
    assert row(table, "majority class").columns["mean"].mean() == 0.25


def test_p_values_are_holm_corrected_paired_t_tests(table, scores):
    means = {label: by_seed.mean(axis=1) for label, by_seed in scores.items()}
    best = max(means, key=lambda label: means[label].mean())
    assert row(table, best).leads
    raw = sorted(
        (stats.ttest_rel(means[label], means[best]).pvalue, label)
        for label in means
        if label != best
    )
    assert row(table, raw[0][1]).p == pytest.approx(min(1, 2 * raw[0][0]))
    assert row(table, raw[1][1]).p == pytest.approx(min(1, max(2 * raw[0][0], raw[1][0])))
    assert row(table, best).p is None
    assert row(table, best).is_best == all(row(table, label).p < 0.05 for _, label in raw)


def test_the_lowest_error_is_the_best(tmp_path):
    runs = [
        write_run(tmp_path, label, s, [level + s / 10] * 4, better="lower", score_name="mse")
        for label, level in (("x", 2.0), ("y", 1.0)) for s in range(3)
    ]  # fmt: skip
    table = comparison_table(runs)
    assert row(table, "y").is_best
    assert row(table, "y").columns["worst party"].mean() == pytest.approx(1.1)
    assert table.score.mean_and_std(row(table, "y").columns["mean"]) == "1.1 ± 0.1"
    assert row(table, "x").p < 1e-6


def test_failed_runs_are_noted_and_left_out_of_the_mean(tmp_path):
    runs = [
        write_run(tmp_path, "x", 0, [0.5] * 4),
        write_run(tmp_path, "x", 1, [0.1] * 4, state="failed"),
        write_run(tmp_path, "y", 0, [0.4] * 4),
    ]
    table = comparison_table(runs)
    assert row(table, "x").columns["mean"].mean() == 0.5
    assert row(table, "x").note == "failed 1 of 2"
    assert row(table, "x").p is None
    assert "failed 1 of 2" in table_formats.markdown_results(table)


def test_a_method_whose_runs_all_failed_has_a_row_without_numbers(tmp_path):
    table = comparison_table([write_run(tmp_path, "x", 0, [0.5] * 4, state="failed")])
    assert row(table, "x").columns == {}
    assert "–" in table_formats.markdown_results(table)
    assert table_formats.as_records(table)[0]["mean"] is None


def test_a_single_method_is_compared_with_its_global_model_and_local_training(tmp_path):
    table = comparison_table([write_run(tmp_path, "x", 0, [0.5] * 4, local=[0.3] * 4)])
    assert [row.label for row in table.rows] == [
        "x", "its global model", "local SGD", "majority class",
    ]  # fmt: skip
    assert row(table, "its global model").columns["mean"].mean() == 0.5


def test_runs_with_different_scores_are_rejected(tmp_path):
    runs = [
        write_run(tmp_path, "x", 0, [1] * 4),
        write_run(tmp_path, "y", 0, [1] * 4, score_name="mse", better="lower"),
    ]
    with pytest.raises(SettingError, match="accuracy, mse"):
        comparison_table(runs)


def test_csv_has_all_digits(table):
    rows = list(csv.DictReader(io.StringIO(table_formats.csv_table(table))))
    assert [r["label"] for r in rows] == [r.label for r in table.rows]
    for record, row in zip(rows, table.rows, strict=True):
        assert float(record["mean"]) == row.columns["mean"].mean()
        assert float(record["worst_party_std"]) == row.columns["worst party"].std(ddof=1)


def test_markdown_and_latex_have_a_cell_for_every_heading(tmp_path):
    runs = [
        write_run(tmp_path, label, s, [0.5 + s / 100] * 4)
        for label in ("a|b", "50% & δ_x")
        for s in range(3)
    ]
    table = comparison_table(runs)
    lines = [
        line for line in table_formats.markdown_results(table).splitlines() if line.startswith("|")
    ]
    cells = {len(re.split(r"(?<!\\)\|", line)) for line in lines}
    assert len(cells) == 1
    body = [line for line in table_formats.latex_table(table).splitlines() if line.endswith(r"\\")]
    assert {len(re.split(r"(?<!\\)&", line)) for line in body} == {6}
    assert any(r"50\% \& $\delta$\_x" in line for line in body)
    assert all(line.isascii() for line in body)


def test_two_experiments_with_the_same_label_have_two_rows(tmp_path):
    """Runs with other settings are not repetitions; the same run given twice counts once."""
    for name, eta in (("monday", 0.1), ("tuesday", 0.2)):
        (tmp_path / name).mkdir()
        for seed in range(2):
            run = write_run(tmp_path / name, "x", seed, [eta + seed / 10] * 4)
            spec = f"seeds = [{seed}]\n[data]\nseed = {seed}\n[[methods]]\neta = {eta}\n"
            (run.path / "spec.toml").write_text(spec)
    runs = [RunFolder(path) for path in sorted(tmp_path.glob("*/x-*"))]
    table = comparison_table([*runs, *runs])
    assert [(r.label, r.seeds) for r in table.rows if r.method] == [
        ("x (x-0)", (0, 1)), ("x (x-0) 2", (0, 1)),
    ]  # fmt: skip
    for name in ("monday", "tuesday"):
        (tmp_path / name / "spec.toml").write_text("")
    table = comparison_table(runs)
    assert [r.label for r in table.rows if r.method] == ["x (monday)", "x (tuesday)"]


def test_labels_are_not_interpreted_as_markup(tmp_path):
    from rich.console import Console

    runs = [write_run(tmp_path, label, 0, [0.5] * 4) for label in ("FedAvg [trimmed]", "x [b]")]
    runs.append(write_run(tmp_path, "y []", 0, [0.4] * 4, method="x [/b]"))
    console = Console(file=io.StringIO(), width=120)
    console.print(table_formats.terminal_table(comparison_table(runs)))
    assert "FedAvg [trimmed]" in console.file.getvalue()
