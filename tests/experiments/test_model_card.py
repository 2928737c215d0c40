"""``model-card.md``: what it says is what the run folder holds."""

import re
import tomllib

import pytest

from fedplus.experiments.cli_spec import spec_from_command
from fedplus.experiments.runner import run_all
from three_hospitals import hospital_table


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train on the tables of three hospitals; return the run folder."""
    folder = tmp_path_factory.mktemp("card")
    table = hospital_table(rows=60)
    table["hospital"] = table.hospital.replace("south", "so|uth")
    table.to_csv(folder / "patients.csv", index=False)
    settings = {
        "party": "hospital", "target": "ill", "drop": "patient,days", "missing": "mean",
        "rounds": 3, "steps": 2, "resamples": 0,
    }  # fmt: skip
    spec, _ = spec_from_command(str(folder / "patients.csv"), ["fedavg+"], settings)
    (run,) = run_all(spec, folder / "run")
    return run


def rows_of(card):
    lines = [line for line in card.splitlines() if line.startswith("| ")]
    cells = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in lines]
    return {row[0]: dict(zip(cells[0][1:], row[1:], strict=True)) for row in cells[2:]}


def test_the_table_has_the_scores_of_the_run(run):
    rows = rows_of(run.text("model-card.md"))
    parties, last = run.parties, run.lines[-1]
    metrics = run.metrics["metrics"]
    assert len(rows) == 4
    for k, name in enumerate(parties["names"]):
        row = rows[name.replace("|", "\\|")]
        assert row["training samples"] == str(parties["train"][k])
        assert row["own model"] == f"{last['personal_score'][k]:.3g}"
        assert row["global model"] == f"{last['global_score'][k]:.3g}"
        assert row["training alone"] == f"{parties['local'][k]:.3g}"
        assert row["constant answer"] == f"{parties['majority'][k]:.3g}"
        assert row["auc"] == f"{metrics['auc']['personal'][k]:.3g}"
    assert rows["all, mean"]["own model"] == f"{last['personal']['mean']:.3g}"


def test_the_card_names_data_method_limits_and_settings(run):
    card = run.text("model-card.md")
    assert card.startswith("# FedAvg+ on patients\n")
    assert "- **Predicts** `ill`: one of the classes no, yes." in card
    assert run.parties["inputs"] in card
    assert "## Use and limits" in card
    assert "Fewer than 20 test samples" in card
    settings = card.split("```toml\n")[1].split("```")[0]
    assert tomllib.loads(settings) == run.spec
