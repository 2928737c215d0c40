"""The tutorial "Three hospitals" does what it says, command by command."""

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fedplus as fp
from command import COMMAND, environment

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "three-hospitals.md").read_text(encoding="utf-8")


def run(line, folder):
    """Run one command of the page in a folder, and return what it prints."""
    words = shlex.split(line)
    if words[0] == "fedplus":
        words = [*COMMAND, *words[1:]]
    if words[0] == "python":
        words = [sys.executable, *words[1:]]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, env=environment(PATH=os.environ["PATH"])
    )
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Follow the page in an empty folder; return the folder and the output of each command."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "examples").symlink_to(ROOT / "examples")
    toml = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL).group(1)
    (folder / "readmission.toml").write_text(toml)
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) <= 12
    return folder, {line: run(line, folder) for line in commands}


def output(done, *words):
    """Return the output of the first command that has all these words."""
    return next(text for line, text in done[1].items() if set(words) <= set(line.split()))


def test_the_tables_and_the_card_are_as_described(done):
    shown = re.search(r"```\n(patient,age.*?)```", PAGE, re.DOTALL).group(1)
    assert output(done, "head") == shown
    card = output(done, "card")
    assert "readmitted (target)" in card
    assert "3 categories" in card
    differences = [float(d) for d in re.findall(r"\(([\d.]+) s\.d\.\)", card)]
    assert max(differences) < 0.25  # "None stands out."


def test_the_table_on_the_page_is_the_one_that_the_command_writes(done):
    folder, _ = done
    toml = tomllib.loads((folder / "readmission.toml").read_text())
    assert len(toml["methods"]) == 4

    def rows(text):
        cells = [line.strip("| ").split(" | ") for line in text.splitlines() if "±" in line]
        return {
            row[0].rstrip("*"): [float(x.split(" ±")[0]) for x in row[1:3]]
            for row in cells
            if len(row) > 2
        }

    page, written = rows(PAGE), rows((folder / "study" / "table.md").read_text(encoding="utf-8"))
    assert page.keys() == written.keys()
    for method, values in page.items():
        np.testing.assert_allclose(values, written[method], atol=1.5)
    text = " ".join(output(done, "run").split())
    assert "not significant" in text
    assert page["FedAvg"][1] < 70 < page["FedGeoMed+"][1]


def test_the_report_has_the_metrics_of_each_hospital(done):
    page = (done[0] / "study" / "report.html").read_text(encoding="utf-8")
    payload = page.split('<script type="application/json" id="content">')[1].split("</script>")[0]
    (section,) = (each for each in json.loads(payload)["sections"] if each["id"] == "metrics")
    table = section["options"][0]["table"]
    assert table["head"] == ["party", "balanced accuracy", "F1", "AUC", "Brier score"]
    assert [row[0] for row in table["rows"][1:-1]] == ["anna", "bergen", "cosmas"]


def test_predictions_for_new_patients(done):
    folder, _ = done
    rows = list(csv.DictReader(io.StringIO(output(done, "predict", "--party"))))
    assert list(rows[0]) == ["patient", "prediction", "p(no)", "p(yes)"]
    assert [row["patient"] for row in rows] == [f"new-{i:04}" for i in range(5)]
    model = fp.load_model(folder / "study" / "fedgeomed+-0", party="anna")
    assert [row["prediction"] for row in rows] == model.predict(
        folder / "new-patients.csv"
    ).tolist()
    assert (folder / "predictions.csv").read_text() == output(done, "predict", "--party")
    assert len(json.loads(output(done, "--global"))["predictions"]) == 5
    assert len(output(done, "--new-party").splitlines()) == 6
