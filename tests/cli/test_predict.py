"""From tables to predictions in the shell: ``data card``, ``run`` and ``predict``."""

import csv
import io
import json

import numpy as np
import pytest

import fedplus as fp
from command import fedplus, refused
from three_hospitals import hospital_table

SETTINGS = [
    "--set", "target=ill", "--set", "drop=patient,days", "--set", "missing=mean",
    "--rounds", "15", "--no-local",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train on one table of three hospitals in the shell; return the folder and the output."""
    folder = tmp_path_factory.mktemp("hospitals")
    hospital_table().to_csv(folder / "patients.csv", index=False)
    table = hospital_table(seed=3)
    table.drop(columns=["ill", "hospital", "days"]).to_csv(folder / "new.csv", index=False)
    table.drop(columns="hospital").head(90).to_csv(folder / "west.csv", index=False)
    output, _ = fedplus(
        "run", folder / "patients.csv", "-m", "fedgeomed+", "--set", "party=hospital", *SETTINGS,
        "--out", folder / "run",
    )  # fmt: skip
    return folder, output


def test_the_output_says_in_one_line_how_the_columns_became_inputs(trained):
    folder, output = trained
    line = (
        "Data: 5 inputs; 3 columns of numbers, standardised over all parties; one input per category "
        "of ward; 33 missing numbers replaced with the mean; without the columns patient, days."
    )
    gaps = int(hospital_table().age.isna().sum())
    assert line.replace("33", str(gaps)) in " ".join(output.split())
    assert line.removeprefix("Data: ")[:20] in (folder / "run" / "report.html").read_text()
    assert "[model]" in (folder / "run" / "spec.toml").read_text()


@pytest.mark.slow
def test_a_folder_of_tables_gives_the_same_models_as_one_table(trained, tmp_path):
    folder, _ = trained
    (tmp_path / "hospitals").mkdir()
    for name, rows in hospital_table().groupby("hospital"):
        rows.drop(columns="hospital").to_csv(tmp_path / "hospitals" / f"{name}.csv", index=False)
    fedplus("run", tmp_path / "hospitals", "-m", "fedgeomed+", *SETTINGS, "--out", tmp_path / "run")
    for party in ("north", "south", "st. anna"):
        rows = folder / "new.csv"
        first, second = (fp.load_model(f / "run", party) for f in (folder, tmp_path))
        np.testing.assert_array_equal(first.predict_proba(rows), second.predict_proba(rows))


@pytest.mark.parametrize(
    "which", [["--party", "st. anna"], ["--global"], ["--new-party", "west.csv"]]
)
def test_predictions_are_those_of_python_as_csv_and_as_json(trained, which, tmp_path):
    folder, _ = trained
    command = ["predict", folder / "run", folder / "new.csv", *which]
    text, _ = fedplus(*command, cwd=folder)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == ["prediction", "p(no)", "p(yes)"]
    assert len(rows) == 270
    document = json.loads(fedplus(*command, "--json", cwd=folder)[0])
    assert document["classes"] == ["no", "yes"]
    assert [row["prediction"] for row in rows] == document["predictions"]
    shown = [[float(row["p(no)"]), float(row["p(yes)"])] for row in rows]
    np.testing.assert_allclose(shown, document["probabilities"], rtol=1e-5)
    if which[0] != "--new-party":
        party = which[1] if len(which) == 2 else None
        expected = fp.load_model(folder / "run", party).predict_proba(folder / "new.csv")
        np.testing.assert_allclose(document["probabilities"], expected, rtol=1e-6)
    right = np.mean(np.array(document["predictions"]) == hospital_table(seed=3).ill.to_numpy())
    assert right > 0.75
    for suffix in ("csv", "json"):
        out = tmp_path / f"predictions.{suffix}"
        fedplus(*command, "--out", out, cwd=folder)
        assert out.read_text() == (
            text if suffix == "csv" else json.dumps(document, indent=1) + "\n"
        )


def test_a_single_party_and_few_test_samples_are_pointed_out(tmp_path):
    hospital_table(rows=20).drop(columns="hospital").to_csv(tmp_path / "all.csv", index=False)
    data = tmp_path / "one"
    data.mkdir()
    (tmp_path / "all.csv").rename(data / "north.csv")
    output, _ = fedplus("data", "card", data, "--set", "target=ill", "--set", "drop=patient")
    output = " ".join(output.split())
    assert "Note: There is a single party, 'north'" in output
    assert "Note: Fewer than 20 test samples at party 'north'" in output
    trained, _ = fedplus(
        "run", data, "-m", "local", *SETTINGS[:-3], "--rounds", "1", "--out", tmp_path / "r"
    )
    trained = " ".join(trained.split())
    assert "Warning: There is a single party, 'north'" in trained


def test_the_card_of_a_table_lists_columns_gaps_and_differences(tmp_path):
    path = tmp_path / "patients.csv"
    table = hospital_table()
    table.loc[table.hospital == "south", "dose"] += 2000
    table.loc[table.hospital == "north", "ill"] = "no"
    table.to_csv(path, index=False)
    settings = ["--set", "party=hospital", "--set", "target=ill", "--set", "drop=patient"]
    output, _ = fedplus("data", "card", path, *settings)
    rows = {
        line.split("  ")[1].strip(): line for line in output.splitlines() if line.startswith("  ")
    }
    assert "2 categories" in rows["ward"]
    assert f"  {int(table.age.isna().sum())}  " in rows["age"]
    assert "south (" in rows["dose"]
    assert "s.d.)" in rows["dose"]
    assert "north (" in rows["ill (target)"]
    assert "All samples of party 'north' have the same class." in " ".join(output.split())
    card = json.loads(fedplus("data", "card", path, *settings, "--json")[0])
    by_name = {column["name"]: column for column in card["columns"]}
    pooled, south = table.dose, table.dose[table.hospital == "south"]
    expected = abs(south.mean() - pooled.mean()) / pooled.std(ddof=0)
    assert by_name["dose"]["difference"] == pytest.approx(expected, rel=1e-6)
    shares = table.groupby("hospital").ward.value_counts(normalize=True).unstack()
    distance = (shares - table.ward.value_counts(normalize=True)).abs().sum(axis=1) / 2
    assert by_name["ward"]["difference"] == pytest.approx(distance.max(), rel=1e-6)
    assert by_name["ward"]["party"] == distance.idxmax()
    assert card["samples_of_parties"] == {"north": 90, "south": 90, "st. anna": 90}


def test_columns_can_be_copied_into_the_output(trained):
    folder, _ = trained
    command = ["predict", folder / "run", folder / "new.csv", "--global", "--keep", "patient,ward"]
    rows = list(csv.DictReader(io.StringIO(fedplus(*command)[0])))
    table = hospital_table(seed=3)
    assert [row["patient"] for row in rows] == table.patient.tolist()
    assert [row["ward"] for row in rows] == table.ward.tolist()
    document = json.loads(fedplus(*command, "--json")[0])
    assert document["columns"]["patient"] == table.patient.tolist()
    assert "--keep must be columns of" in refused(*command[:-1], "name")


def test_bad_calls_of_predict_are_one_line(trained, tmp_path):
    folder, _ = trained
    run, new = folder / "run", folder / "new.csv"
    assert "Parties: north, south, st. anna" in refused("predict", run, new)
    assert "got --party and --global" in refused(
        "predict", run, new, "--party", "north", "--global"
    )
    assert "Did you mean north?" in refused("predict", run, new, "--party", "nort")
    assert "FILE must be an existing file" in refused(
        "predict", run, tmp_path / "no.csv", "--global"
    )
    assert "RUN must be one run folder" in refused("predict", folder, new, "--global")
    assert "RUN must be one run folder" in refused("predict", tmp_path, new, "--global")
    steps = refused("predict", run, new, "--global", "--steps", "3")
    assert "--steps must be given together with --new-party" in steps
    out = tmp_path / "x.xlsx"
    assert "ends in .csv or .json" in refused("predict", run, new, "--global", "--out", out)
    assert not out.exists()


def test_a_table_needs_its_column_of_parties(trained):
    folder, _ = trained
    message = refused("run", folder / "patients.csv", "-m", "local", "--set", "target=ill")
    assert "party must be a column of" in message
    assert "--set party=COLUMN" in message


def test_a_model_of_the_users_own_module(tmp_path):
    """The file is found in the current folder, when training and when predicting."""
    (tmp_path / "mynetwork.py").write_text(
        "import jax, jax.numpy as jnp\n"
        "from fedplus.models import Model\n"
        "def network(inputs, classes, hidden=4):\n"
        "    def init(key):\n"
        "        a, b = jax.random.split(key)\n"
        "        return {'a': 0.3 * jax.random.normal(a, (inputs, hidden)),\n"
        "                'b': 0.3 * jax.random.normal(b, (hidden, classes))}\n"
        "    return Model(init, lambda p, x: jnp.tanh(x @ p['a']) @ p['b'], name='mine')\n"
        "def number(inputs):\n"
        "    return 3\n"
    )
    hospital_table().to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "e.toml").write_text(
        'data = { file = "patients.csv", party = "hospital", target = "ill", missing = "mean",'
        ' drop = ["patient", "days"] }\n'
        'model = { name = "mynetwork:network", hidden = 3 }\n'
        'train = { rounds = 2 }\nmethods = [{ name = "fedavg" }]\n'
    )
    fedplus("run", "e.toml", "--no-local", "--out", "run", cwd=tmp_path)
    hospital_table(seed=3).to_csv(tmp_path / "new.csv", index=False)
    text, _ = fedplus("predict", "run", "new.csv", "--global", cwd=tmp_path)
    assert len(text.splitlines()) == 271
    assert json.loads((tmp_path / "run" / "model.json").read_text())["arguments"]["hidden"] == 3

    def with_model(name):
        text = (tmp_path / "e.toml").read_text().replace("mynetwork:network", name)
        text = text.replace(f'{{ name = "{name}", hidden = 3 }}', f'"{name}"')
        (tmp_path / "other.toml").write_text(text)
        return refused("run", "other.toml", cwd=tmp_path)

    assert "must be module:function" in with_model("mynetwork:nothing")
    assert "must be module:function" in with_model("nomodule:network")
    assert "must be a function that returns a fedplus.models.Model, got int" in with_model(
        "mynetwork:number"
    )
