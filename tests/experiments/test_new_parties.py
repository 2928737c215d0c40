"""Parties that are held out of the training, join afterwards and are judged."""

import csv
import json

import numpy as np
import pytest

import fedplus as fp
from command import fedplus
from fedplus.check import SettingError
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.runner import prepare, run_all
from fedplus.report import table_formats
from fedplus.report.tables import comparison_table
from fedplus.simulation.evaluate import evaluate_parties, split_into_blocks
from fedplus.simulation.join import LocalTraining, join_parties

SMALL = {"parties": 6, "outliers": 0.5, "rounds": 4, "steps": 2, "evaluate_every": 2}
HELD_OUT = {"new_parties.count": 2, "new_parties.rounds": 3}


def specification(methods=("fedgeomed+",), seeds=(3,), **settings):
    return spec_from_command("digits-robust", methods, {**SMALL, **HELD_OUT, **settings}, seeds)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the runs of a method whose parties can join later, and of one whose parties cannot."""
    spec, source = specification(("fedgeomed+", "l2gd"))
    return run_all(spec, tmp_path_factory.mktemp("study"), source)


def test_the_parties_are_split_by_the_seed_alone():
    spec, source = specification(("fedavg", "ditto"), seeds=(0, 1, 2, 3))
    choices = []
    for seed in spec.seeds:
        prepared = prepare(spec, seed, source)
        whole = fp.data.load("digits-robust", seed=seed, parties=6, outliers=0.5)
        names = prepared.new_parties.names
        assert prepared.federation.names == tuple(n for n in whole.names if n not in names)
        for part in (prepared.federation, prepared.new_parties):
            for k, name in enumerate(part.names):
                for split, expected in ((part.train, whole.train), (part.test, whole.test)):
                    np.testing.assert_array_equal(
                        split.party(k)[0], expected.party(whole.names.index(name))[0]
                    )
        outliers = prepared.federation.info.outliers + prepared.new_parties.info.outliers
        assert set(outliers) == set(whole.info.outliers)
        choices.append(names)
    assert len(set(choices)) > 1
    assert prepare(spec, 0, source).new_parties.names == choices[0]


def test_names_choose_the_parties_and_inputs_are_standardised_without_them():
    settings = {"new_parties.count": None, "new_parties.names": ["4", "1"], "standardise": True}
    spec, source = specification(**settings)
    prepared = prepare(spec, 0, source)
    assert prepared.new_parties.names == ("1", "4")
    x = prepared.federation.train.x
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
    assert np.abs(prepared.new_parties.train.x.mean(0)).max() > 0.01


def test_the_default_steps_are_those_of_the_training():
    assert specification()[0].new_parties.steps == 2
    assert specification(**{"new_parties.steps": 7})[0].new_parties.steps == 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"new_parties.count": 5}, "new_parties.count must be from 1 to 4"),
        ({"new_parties.names": ["1"]}, "new_parties must be given by either count or names, got both"),
        ({"new_parties.count": None}, "must be given by either count or names, got neither"),
        ({"new_parties.count": None, "new_parties.names": ["x"]}, "must be names of parties, got 'x'"),
        ({"new_parties.count": None, "new_parties.names": ["1", "1"]}, "must be different names"),
        ({"new_parties.count": None, "new_parties.names": list("01234")}, "must be at most 4 names"),
        ({"new_parties.count": None, "new_parties.names": []}, "at least 1 item"),
        ({"new_parties.count": 0}, "new_parties.count must be greater than or equal to 1"),
        ({"new_parties.size": 1}, "new_parties.size is not known"),
        ({"steps": None, "epochs": 1.0}, "new_parties.steps must be given"),
        ({"steps": [1] * 6, "new_parties.steps": 1}, "train.steps must be 4 numbers, one per party"),
        ({"weights": [1.0] * 6}, "train.weights must be 4 numbers"),
        ({"cohort": 5}, "cohort must be from 1 to 4"),
        ({"faults": [{"parties": [5], "attack": "sign_flip"}]}, "some of the parties 0 to 3"),
    ],
)  # fmt: skip
def test_invalid_settings_are_rejected_in_one_line(settings, message):
    with pytest.raises(SettingError) as caught:
        prepare(*_with_seed(specification(**settings)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_message_about_a_file_names_the_line(tmp_path):
    path = tmp_path / "e.toml"
    text = '[data]\nname = "digits-robust"\nparties = 4\n[new_parties]\nrounds = 2\ncount = 3\n'
    path.write_text(text + '[[methods]]\nname = "fedavg"\n')
    with pytest.raises(SettingError) as caught:
        prepare(*_with_seed(spec_from_command(str(path))))
    assert str(caught.value).startswith(f"{path}, line 6: new_parties.count must be from 1 to 2")
    path.write_text(
        'new_parties = 3\n[data]\nname = "digits-robust"\n[[methods]]\nname = "fedavg"\n'
    )
    with pytest.raises(SettingError, match="line 1: new_parties must be a table"):
        spec_from_command(str(path))


def _with_seed(specification):
    spec, source = specification
    return spec, 0, source


def test_lists_cohorts_and_faults_refer_to_the_parties_that_train():
    settings = {
        "steps": [1, 2, 3, 4], "new_parties.steps": 1, "weights": [1.0, 2.0, 1.0, 1.0], "cohort": 4,
        "faults": [{"parties": [3], "attack": "sign_flip"}],
    }  # fmt: skip
    spec, source = specification(**settings)
    assert prepare(spec, 0, source).arguments["steps"] == [1, 2, 3, 4]


def test_the_file_has_the_scores_of_the_joined_models(runs):
    run = runs[0]
    spec, source = specification()
    prepared = prepare(spec, 3, source)
    new = prepared.new_parties
    result = fp.simulate(
        prepared.methods[0], prepared.federation, prepared.model, rounds=4, steps=2, seed=3
    )
    training = LocalTraining(2, 3, 20)
    blocks, rows = split_into_blocks(new.test)
    content = run.new_parties
    assert content["names"] == list(new.names)
    assert (content["steps"], content["rounds"], content["given_up"]) == (2, 3, [0, 0])
    for key, algorithm, state in (
        ("scores", result.algorithm, result.state),
        ("local", alone := fp.presets.local_sgd(eta=0.02), alone.init(result.w_global, 1)),
    ):
        joined = join_parties(
            algorithm, state, prepared.model, new.train, training, rounds_before=4, seed=3
        )
        expected = evaluate_parties(prepared.model, rows, blocks, joined.models).score
        np.testing.assert_allclose(content[key], expected, rtol=1e-6)
    assert run.parties["names"] == list(prepared.federation.names)
    assert run.status["parties"] == 4


def test_a_method_that_cannot_join_has_no_scores(runs):
    able, unable = (run.new_parties for run in runs)
    assert unable["scores"] is None
    assert unable["given_up"] is None
    assert unable["local"] == able["local"]
    assert unable["names"] == able["names"]
    table = comparison_table(runs)
    by_label = {row["label"]: row for row in table_formats.as_records(table)}
    assert by_label["L2GD"]["new_parties"] is None
    assert by_label["FedGeoMed+"]["new_parties"] == pytest.approx(np.mean(able["scores"]))
    assert by_label["local SGD"]["new_parties"] == pytest.approx(np.mean(able["local"]))
    assert (
        table_formats._cells(table, table.rows[1])[table.headings.index("new parties") + 1] == "–"
    )
    assert "L2GD: no score" in table_formats.footnote(table)
    for text in (table_formats.markdown_results(table), table_formats.latex_table(table)):
        assert "new parties" in text
        assert "L2GD: no score" in text


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_run_killed_before_the_file_is_written_resumes_to_the_same_file(runs, state):
    run = runs[0]
    path = run.path / "new_parties.json"
    content, study_folder = path.read_bytes(), run.path.parent
    path.unlink()
    (run.path / "status.json").write_text(json.dumps(run.status | {"state": state}))
    run_all(*_arguments(study_folder), resume=True)
    assert path.read_bytes() == content
    assert run.status["state"] == "finished"


def _arguments(folder):
    spec, source = spec_from_command(str(folder / "spec.toml"))
    return spec, folder, source


def test_compare_judges_new_parties_of_a_folder_of_files(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    for name in ("north", "east", "south", "west"):
        x = rng.normal(size=(20, 2))
        lines = [f"{a:.4f},{b:.4f},{int(a > b)}" for a, b in x]
        (tmp_path / "data" / f"{name}.csv").write_text("\n".join(["a,b,ill", *lines]) + "\n")
    out, err = fedplus(
        "compare", tmp_path / "data", "--methods", "fedavg+,l2gd", "--seeds", "1", "--rounds", "2",
        "--set", "target=ill", "--set", "steps=2", "--set", "new_parties.count=2",
        "--set", "new_parties.rounds=2", "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert err == ""
    rows = {row["label"]: row for row in json.loads(out)["table"]}
    assert 0 <= rows["FedAvg+"]["new_parties"] <= 1
    assert rows["L2GD"]["new_parties"] is None
    with (tmp_path / "out" / "table.csv").open() as file:
        assert [row["new_parties"] for row in csv.DictReader(file) if row["label"] == "L2GD"] == [
            ""
        ]
    assert "new parties" in (tmp_path / "out" / "table.md").read_text()
    names = {
        tuple(RunFolder(tmp_path / "out" / f"{label}-0").new_parties["names"])
        for label in ("local-sgd", "fedavg+", "l2gd")
    }
    assert len(names) == 1
