"""The headline claims only significant differences, and starts with alternatives that are better."""

import json

import numpy as np
import pytest
from sample_runs import study
from test_tables import write_run

from fedplus.report import table_formats
from fedplus.report.report_data import report_data
from fedplus.report.tables import comparison_table

SEEDS = 5


def make_runs(tmp_path, means, seeds=SEEDS, spread=0.004, **more):
    """Write runs of some methods with these mean scores over parties and seeds."""
    rng = np.random.default_rng(1)
    return [
        write_run(tmp_path, label, seed, np.full(4, mean) + spread * rng.normal(), **more)
        for label, mean in means.items()
        for seed in range(seeds)
    ]


def verdict(runs):
    return report_data(runs)["verdict"]


def test_a_method_is_best_if_every_difference_is_significant(tmp_path):
    runs = make_runs(tmp_path, {"fedavg": 0.8, "ditto": 0.7, "fedavg+": 0.9})
    text = verdict(runs)
    assert text.startswith("fedavg+ is best: mean accuracy ")
    assert "the difference from every other method is significant (p " in text
    table = comparison_table(runs)
    assert [row.label for row in table.rows if row.is_best] == ["fedavg+"]


def test_no_method_is_best_if_the_next_one_is_as_good(tmp_path):
    runs = make_runs(tmp_path, {"fedavg": 0.6, "ditto": 0.9, "fedavg+": 0.9})
    data = report_data(runs)
    assert data["verdict"].startswith("No method is clearly better: ")
    assert "is not significant (p = " in data["verdict"]
    assert "fedavg " not in data["verdict"].partition(";")[0]
    assert data["summary"]["best"] == []
    table = comparison_table(runs)
    assert not any(row.is_best for row in table.rows)
    assert sum(row.leads for row in table.rows) == 1
    options = [option for part in data["sections"][:1] for option in part["options"]]
    for text in (
        *(option["finding"] for option in options),
        data["verdict"],
        table_formats.footnote(table),
        data["summary"]["note"],
    ):
        assert "best" not in text
    assert [record["best"] for record in table_formats.as_records(table)] == [False] * len(
        table.rows
    )


@pytest.mark.parametrize(("seeds", "count"), [(1, "one seed"), (2, "2 seeds")])
def test_too_few_seeds_give_no_test(tmp_path, seeds, count):
    text = verdict(make_runs(tmp_path, {"fedavg": 0.3, "fedavg+": 0.9}, seeds=seeds))
    assert text.startswith("No method is clearly better: fedavg+ has the highest mean accuracy")
    assert f"with {count} there is no test" in text


def test_the_lowest_error_leads(tmp_path):
    means = {"fedavg": 2.0, "fedavg+": 1.0}
    runs = make_runs(tmp_path, means, seeds=1, better="lower", score_name="mse")
    assert "fedavg+ has the lowest mean mse" in verdict(runs)


def set_global_score(run, score):
    """Set the score of the global model for every party."""
    path = run.path / "rounds.jsonl"
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"global_score": [score] * 4}) + "\n")
    return run


def set_majority_score(run, score):
    path = run.path / "parties.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"majority": [score] * 4}))
    return run


def test_better_alternatives_come_first(tmp_path):
    """They are the method's global model, local training and the majority class, each with its p."""
    (tmp_path / "x").mkdir()
    runs = make_runs(tmp_path / "x", {"fedavg+": 0.6}, local=[0.7] * 4)
    runs = [set_majority_score(set_global_score(run, 0.8), 0.65) for run in runs]
    text = verdict(runs)
    assert text.startswith(
        "The global model of fedavg+ beats the parties' own models: mean accuracy 80.0 %"
    )
    assert "Local SGD beats fedavg+: mean accuracy 70.0 %" in text
    assert "The majority class beats fedavg+: mean accuracy 65.0 %" in text
    assert text.count("(p ") == 3
    assert text.index("majority class") < text.index("fedavg+ has a mean accuracy of")
    (tmp_path / "y").mkdir()
    one_seed = make_runs(tmp_path / "y", {"fedavg+": 0.6}, seeds=1, local=[0.7] * 4)
    text = verdict(one_seed)
    assert text.startswith("Local SGD is ahead of fedavg+: mean accuracy 70.0 %")
    assert "(one seed: no test)" in text


def test_local_training_that_leads_a_comparison_comes_first(tmp_path):
    text = verdict(make_runs(tmp_path, {"local": 0.9, "fedavg": 0.8, "fedavg+": 0.85}))
    assert text.startswith("Local SGD beats fedavg+: mean accuracy 9")
    assert "Of the federated methods fedavg+ has the highest mean accuracy" in text
    assert "best" not in text


def test_beats_is_used_only_for_significant_differences(tmp_path):
    runs = make_runs(tmp_path, {"local": 0.8502, "fedavg+": 0.85}, spread=0.02)
    runs += make_runs(tmp_path, {"fedavg": 0.2})
    text = verdict(runs)
    assert "beats" not in text
    if "Local SGD" in text:
        assert "not significantly" in text


def test_alternatives_that_are_worse_are_not_mentioned(tmp_path):
    text = verdict(study(tmp_path, methods=("fedavg", "fedgeomed+"), seeds=4))
    assert "beats" not in text
    assert "ahead" not in text
    assert text.startswith("FedGeoMed+ is best")


def test_the_terminal_prints_only_the_best_method_in_bold(tmp_path):
    from rich.console import Console

    def leading_line(name, means):
        (tmp_path / name).mkdir()
        console = Console(force_terminal=True, width=120, color_system="standard")
        table = comparison_table(make_runs(tmp_path / name, means))
        with console.capture() as captured:
            console.print(table_formats.terminal_table(table))
        return next(line for line in captured.get().splitlines() if "*" in line)

    assert "\x1b[1m" not in leading_line("a", {"ditto": 0.9, "fedavg+": 0.9})
    assert "\x1b[1m" in leading_line("b", {"ditto": 0.7, "fedavg+": 0.9})
