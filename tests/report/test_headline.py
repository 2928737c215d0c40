"""The headline claims no more than the runs show, and begins with what beats the method."""

import json

import numpy as np
import pytest
from samples import study
from test_tables import folder

from fedplus.report import table_formats
from fedplus.report.report_data import report_data
from fedplus.report.tables import comparison_table

SEEDS = 5


def runs(tmp_path, means, seeds=SEEDS, spread=0.004, **more):
    """Runs of some methods, by their mean score over parties and seeds."""
    rng = np.random.default_rng(1)
    return [
        folder(tmp_path, label, seed, np.full(4, mean) + spread * rng.normal(), **more)
        for label, mean in means.items()
        for seed in range(seeds)
    ]


def verdict(found):
    return report_data(found)["verdict"]


def test_best_is_said_where_every_difference_is_significant(tmp_path):
    found = runs(tmp_path, {"fedavg": 0.8, "ditto": 0.7, "fedavg+": 0.9})
    said = verdict(found)
    assert said.startswith("fedavg+ is best: mean accuracy ")
    assert "the difference to every other method is significant (p " in said
    table = comparison_table(found)
    assert [row.label for row in table.rows if row.is_best] == ["fedavg+"]


def test_best_is_not_said_where_the_next_method_is_as_good(tmp_path):
    found = runs(tmp_path, {"fedavg": 0.6, "ditto": 0.9, "fedavg+": 0.9})
    told = report_data(found)
    assert told["verdict"].startswith("No method is clearly better: ")
    assert "is not significant (p = " in told["verdict"]
    assert "fedavg " not in told["verdict"].partition(";")[0]
    assert told["summary"]["best"] == []
    table = comparison_table(found)
    assert not any(row.is_best for row in table.rows)
    assert sum(row.leads for row in table.rows) == 1
    findings = [one["finding"] for part in told["sections"][:1] for one in part["options"]]
    for text in (
        *findings,
        told["verdict"],
        table_formats.footnote(table),
        told["summary"]["note"],
    ):
        assert "best" not in text
    assert [record["best"] for record in table_formats.as_records(table)] == [False] * len(
        table.rows
    )


@pytest.mark.parametrize(("seeds", "told"), [(1, "one seed"), (2, "2 seeds")])
def test_too_few_seeds_are_no_test(tmp_path, seeds, told):
    said = verdict(runs(tmp_path, {"fedavg": 0.3, "fedavg+": 0.9}, seeds=seeds))
    assert said.startswith("No method is clearly better: fedavg+ has the highest mean accuracy")
    assert f"with {told} there is no test" in said


def test_the_lowest_error_leads(tmp_path):
    means = {"fedavg": 2.0, "fedavg+": 1.0}
    found = runs(tmp_path, means, seeds=1, better="lower", score_name="mse")
    assert "fedavg+ has the lowest mean mse" in verdict(found)


def with_global(run, score):
    """The same run, with this score of the global model for every party."""
    path = run.path / "rounds.jsonl"
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"global_score": [score] * 4}) + "\n")
    return run


def with_majority(run, score):
    path = run.path / "parties.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"majority": [score] * 4}))
    return run


def test_what_beats_the_method_comes_first(tmp_path):
    """Its own global model, training alone and the majority class, each with its p."""
    (tmp_path / "x").mkdir()
    found = runs(tmp_path / "x", {"fedavg+": 0.6}, local=[0.7] * 4)
    found = [with_majority(with_global(run, 0.8), 0.65) for run in found]
    said = verdict(found)
    assert said.startswith(
        "The global model of fedavg+ beats the parties' own models: mean accuracy 80.0 %"
    )
    assert "Training alone beats fedavg+: mean accuracy 70.0 %" in said
    assert "The majority class beats fedavg+: mean accuracy 65.0 %" in said
    assert said.count("(p ") == 3
    assert said.index("majority class") < said.index("fedavg+ has a mean accuracy of")
    (tmp_path / "y").mkdir()
    one = runs(tmp_path / "y", {"fedavg+": 0.6}, seeds=1, local=[0.7] * 4)
    assert verdict(one).startswith("Training alone is ahead of fedavg+: mean accuracy 70.0 %")
    assert "(one seed: no test)" in verdict(one)


def test_local_training_that_leads_a_comparison_comes_first(tmp_path):
    said = verdict(runs(tmp_path, {"local": 0.9, "fedavg": 0.8, "fedavg+": 0.85}))
    assert said.startswith("Training alone beats fedavg+: mean accuracy 9")
    assert "Of the federated methods fedavg+ has the highest mean accuracy" in said
    assert "best" not in said


def test_a_difference_that_is_not_significant_is_no_beating(tmp_path):
    found = runs(tmp_path, {"local": 0.8502, "fedavg+": 0.85}, spread=0.02)
    found += runs(tmp_path, {"fedavg": 0.2})
    said = verdict(found)
    assert "beats" not in said
    if "Training alone" in said:
        assert "not significantly" in said


def test_nothing_beats_a_good_method(tmp_path):
    said = verdict(study(tmp_path, methods=("fedavg", "fedgeomed+"), seeds=4))
    assert "beats" not in said
    assert "ahead" not in said
    assert said.startswith("FedGeoMed+ is best")


def test_the_terminal_is_bold_only_for_the_best(tmp_path):
    from rich.console import Console

    def printed(name, means):
        (tmp_path / name).mkdir()
        console = Console(force_terminal=True, width=120, color_system="standard")
        with console.capture() as captured:
            console.print(
                table_formats.terminal_table(comparison_table(runs(tmp_path / name, means)))
            )
        return captured.get()

    close = [x for x in printed("a", {"ditto": 0.9, "fedavg+": 0.9}).splitlines() if "*" in x]
    clear = [x for x in printed("b", {"ditto": 0.7, "fedavg+": 0.9}).splitlines() if "*" in x]
    assert "\x1b[1m" not in close[0]
    assert "\x1b[1m" in clear[0]
