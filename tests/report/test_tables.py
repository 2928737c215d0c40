"""Tables, against figures computed another way, and their formats read back."""

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


def folder(path, label, seed, scores, *, method=None, state="finished", local=None, better="higher",
           score_name="accuracy", outliers=("d",)):  # fmt: skip
    """A run folder with one evaluated round."""
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
            folder(tmp_path, label, seed, of[seed])
            for label, of in scores.items()
            for seed in range(5)
        ]
    )


def row(table, label):
    (found,) = [row for row in table.rows if row.label == label]
    return found


def test_columns_are_mean_and_deviation_over_seeds(table, scores):
    for label, of in scores.items():
        columns = row(table, label).columns
        expected = {
            "mean": of.mean(axis=1), "worst party": of.min(axis=1),
            "the others": of[:, :3].mean(axis=1), "outliers": of[:, 3],
        }  # fmt: skip
        assert set(columns) == set(expected)
        for name, values in expected.items():
            assert columns[name].tolist() == pytest.approx(values.tolist())
    assert row(table, "majority class").columns["mean"].mean() == 0.25


def test_p_values_are_paired_tests_corrected_after_holm(table, scores):
    means = {label: of.mean(axis=1) for label, of in scores.items()}
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


def test_the_best_of_errors_is_the_least(tmp_path):
    runs = [
        folder(tmp_path, label, s, [level + s / 10] * 4, better="lower", score_name="mse")
        for label, level in (("x", 2.0), ("y", 1.0)) for s in range(3)
    ]  # fmt: skip
    made = comparison_table(runs)
    assert row(made, "y").is_best
    assert row(made, "y").columns["worst party"].mean() == pytest.approx(1.1)
    assert made.score.spread(row(made, "y").columns["mean"]) == "1.1 ± 0.1"
    assert row(made, "x").p < 1e-6


def test_failed_runs_are_noted_and_not_counted(tmp_path):
    runs = [
        folder(tmp_path, "x", 0, [0.5] * 4),
        folder(tmp_path, "x", 1, [0.1] * 4, state="failed"),
        folder(tmp_path, "y", 0, [0.4] * 4),
    ]
    made = comparison_table(runs)
    assert row(made, "x").columns["mean"].mean() == 0.5
    assert row(made, "x").note == "failed 1 of 2"
    assert row(made, "x").p is None
    assert "failed 1 of 2" in table_formats.markdown_results(made)


def test_all_failed_leaves_a_row_without_figures(tmp_path):
    made = comparison_table([folder(tmp_path, "x", 0, [0.5] * 4, state="failed")])
    assert row(made, "x").columns == {}
    assert "–" in table_formats.markdown_results(made)
    assert table_formats.as_records(made)[0]["mean"] is None


def test_one_method_comes_with_its_global_model_and_local_training(tmp_path):
    made = comparison_table([folder(tmp_path, "x", 0, [0.5] * 4, local=[0.3] * 4)])
    assert [row.label for row in made.rows] == [
        "x", "its global model", "local only", "majority class",
    ]  # fmt: skip
    assert row(made, "its global model").columns["mean"].mean() == 0.5


def test_runs_scored_differently_are_refused(tmp_path):
    runs = [
        folder(tmp_path, "x", 0, [1] * 4),
        folder(tmp_path, "y", 0, [1] * 4, score_name="mse", better="lower"),
    ]
    with pytest.raises(SettingError, match="accuracy, mse"):
        comparison_table(runs)


def test_csv_reads_back_in_full(table):
    rows = list(csv.DictReader(io.StringIO(table_formats.csv_table(table))))
    assert [r["label"] for r in rows] == [r.label for r in table.rows]
    for read, made in zip(rows, table.rows, strict=True):
        assert float(read["mean"]) == made.columns["mean"].mean()
        assert float(read["worst_party_std"]) == made.columns["worst party"].std(ddof=1)


def test_markdown_and_latex_have_a_cell_for_every_heading(tmp_path):
    runs = [
        folder(tmp_path, label, s, [0.5 + s / 100] * 4)
        for label in ("a|b", "50% & δ_x")
        for s in range(3)
    ]
    made = comparison_table(runs)
    lines = [
        line for line in table_formats.markdown_results(made).splitlines() if line.startswith("|")
    ]
    cells = {len(re.split(r"(?<!\\)\|", line)) for line in lines}
    assert len(cells) == 1
    body = [line for line in table_formats.latex_table(made).splitlines() if line.endswith(r"\\")]
    assert {len(re.split(r"(?<!\\)&", line)) for line in body} == {6}
    assert any(r"50\% \& $\delta$\_x" in line for line in body)
    assert all(line.isascii() for line in body)


def test_a_label_of_two_experiments_is_two_rows(tmp_path):
    """Other settings are no repetition; the same run given twice counts once."""
    for name, eta in (("monday", 0.1), ("tuesday", 0.2)):
        (tmp_path / name).mkdir()
        for seed in range(2):
            run = folder(tmp_path / name, "x", seed, [eta + seed / 10] * 4)
            spec = f"seeds = [{seed}]\n[data]\nseed = {seed}\n[[methods]]\neta = {eta}\n"
            (run.path / "spec.toml").write_text(spec)
    runs = [RunFolder(path) for path in sorted(tmp_path.glob("*/x-*"))]
    made = comparison_table([*runs, *runs])
    assert [(r.label, r.seeds) for r in made.rows if r.method] == [
        ("x (x-0)", (0, 1)), ("x (x-0) 2", (0, 1)),
    ]  # fmt: skip
    for name in ("monday", "tuesday"):
        (tmp_path / name / "spec.toml").write_text("")
    made = comparison_table(runs)
    assert [r.label for r in made.rows if r.method] == ["x (monday)", "x (tuesday)"]


def test_labels_are_no_markup(tmp_path):
    from rich.console import Console

    runs = [folder(tmp_path, label, 0, [0.5] * 4) for label in ("FedAvg [trimmed]", "x [b]")]
    runs.append(folder(tmp_path, "y []", 0, [0.4] * 4, method="x [/b]"))
    console = Console(file=io.StringIO(), width=120)
    console.print(table_formats.terminal_table(comparison_table(runs)))
    assert "FedAvg [trimmed]" in console.file.getvalue()
