"""Models of finished runs: ``load_model`` and ``join_run`` give the scores that the run reported."""

import json

import numpy as np
import pytest

import fedplus as fp
from fedplus.experiments.build import build_federation
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.experiments.join_run import join_run
from fedplus.experiments.model_file import ModelFile, read_model_file, write_model_file
from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.runner import prepare, run_all
from fedplus.experiments.toml_source import TomlSource
from three_hospitals import hospital_table

SETTINGS = {
    "party": "hospital", "missing": "mean", "drop": "patient", "categorical": "stage",
    "rounds": 20, "steps": 5, "reference.local": False,
}  # fmt: skip


def train(folder, target="ill", method="fedgeomed+", others=("days",), **settings):
    """Train on the tables of three hospitals; return the run folder and the specification."""
    path = folder / "patients.csv"
    hospital_table().to_csv(path, index=False)
    drop = ["patient", *others]
    chosen = SETTINGS | {"target": target, "drop": drop} | settings
    spec, _ = spec_from_command(str(path), [method], chosen)
    (run,) = run_all(spec, folder / "run")
    return run, spec


def rows_of_inputs(model, table, x):
    """Return the rows of the table that become the inputs x, in the order of x."""
    encoded = model.inputs(table)
    is_row = (encoded == x[:, None]).all(2)
    assert is_row.any(1).all()
    return table.iloc[is_row.argmax(1)]


@pytest.mark.parametrize("standardise", ["pooled", "party", "no"])
def test_predictions_for_the_test_rows_have_the_scores_of_the_report(tmp_path, standardise):
    run, spec = train(
        tmp_path, standardise=standardise, **{"eta": 1e-8} if standardise == "no" else {}
    )
    federation = build_federation(spec.for_run(0, 0).data, TomlSource())
    table, last = hospital_table(), run.lines[-1]
    for k, name in enumerate(federation.names):
        x, y = federation.test.party(k)
        model = fp.load_model(run.path, party=name)
        own = table[table.hospital == name]
        rows = rows_of_inputs(model, own, x)
        assert np.mean(model.predict(rows) == rows["ill"].to_numpy()) == pytest.approx(
            last["personal_score"][k], abs=1e-7
        )
        assert (np.array(federation.info.classes)[y] == rows["ill"]).all()
        probabilities = model.predict_proba(rows)
        np.testing.assert_allclose(probabilities.sum(1), 1)
        label = np.array([model.class_names.index(c) for c in rows["ill"]])
        loss = -np.log(probabilities[np.arange(len(label)), label]).mean()
        assert loss == pytest.approx(last["personal_loss"][k], rel=1e-4)
        if standardise != "party":  # There the global model uses all parties' statistics.
            shared = fp.load_model(run.path)
            score = np.mean(shared.predict(rows) == rows["ill"].to_numpy())
            assert score == pytest.approx(last["global_score"][k], abs=1e-7)


def test_predicted_numbers_have_the_error_of_the_report(tmp_path):
    run, spec = train(tmp_path, target="days", others=("ill",))
    federation = build_federation(spec.for_run(0, 0).data, TomlSource())
    table = hospital_table()
    for k, name in enumerate(federation.names):
        model = fp.load_model(run.path, party=name)
        x, _ = federation.test.party(k)
        rows = rows_of_inputs(model, table[table.hospital == name], x)
        errors = model.predict(rows) - rows["days"].to_numpy()
        assert np.mean(errors**2) == pytest.approx(run.lines[-1]["personal_score"][k], rel=1e-5)
        assert not model.is_classifier
        with pytest.raises(fp.SettingError, match="predict_proba must be called for classes"):
            model.predict_proba(rows)


def test_columns_may_be_in_any_order_and_there_may_be_others(tmp_path):
    run, _ = train(tmp_path)
    model, table = fp.load_model(run.path, party="st. anna"), hospital_table(seed=9).tail(20)
    assert model.columns == ("age", "dose", "ward", "stage")
    expected = model.predict_proba(table)
    shuffled = table[["stage", "ward", "dose", "age"]]
    np.testing.assert_array_equal(model.predict_proba(shuffled), expected)
    path = tmp_path / "new.parquet"
    shuffled.to_parquet(path)
    np.testing.assert_array_equal(model.predict_proba(path), expected)
    columns = {name: shuffled[name].to_numpy() for name in shuffled}
    np.testing.assert_array_equal(model.predict_proba(columns), expected)
    assert model.predict_proba(table.head(0)).shape == (0, 2)
    with pytest.raises(
        fp.SettingError, match="columns must be those of the training, got none called dose"
    ):
        model.predict(table.drop(columns="dose"))
    with pytest.raises(fp.SettingError, match="column 'dose' must be numbers, got 'high'"):
        model.predict(table.assign(dose="high"))
    with pytest.raises(fp.SettingError, match="data must be a data frame"):
        model.predict(3)


def test_unknown_categories_and_gaps_follow_the_rule_of_the_training(tmp_path):
    table = hospital_table(seed=9).head(3)
    (tmp_path / "mean").mkdir()
    filled = fp.load_model(train(tmp_path / "mean")[0].path, party="north")
    with pytest.warns(UserWarning, match="column 'ward' must be one of A, B, got 'Z'.*3 such rows"):
        inputs = filled.inputs(table.assign(ward="Z", age=None))
    assert (inputs[:, [2, 3]] == 0).all()
    assert np.abs(inputs[:, 0]).max() < 1e-6
    (tmp_path / "drop").mkdir()
    strict = fp.load_model(train(tmp_path / "drop", missing="drop")[0].path, party="north")
    table = table.assign(age=50.0)
    with pytest.raises(fp.SettingError, match="column 'ward' must be one of A, B, got 'Z'"):
        strict.predict(table.assign(ward="Z"))
    with pytest.raises(fp.SettingError, match="column 'age' must be present in every row, got 3"):
        strict.predict(table.assign(age=None))


def test_a_run_on_arrays_predicts_for_arrays(tmp_path):
    spec, _ = spec_from_command(
        "digits-robust", ["fedavg"], {"rounds": 2, "reference.local": False, "model.name": "mlp"}
    )
    (run,) = run_all(spec, tmp_path / "run")
    federation = build_federation(spec.for_run(0, 0).data, TomlSource())
    for k, name in enumerate(federation.names[:3]):
        model = fp.load_model(run.path, name)
        x, y = federation.test.party(k)
        score = np.mean(model.predict(x) == np.array(model.class_names)[y])
        assert score == pytest.approx(run.lines[-1]["personal_score"][k], abs=1e-7)
    with pytest.raises(fp.SettingError, match=r"data must be numbers of shape \(n, 64\)"):
        model.predict(np.ones((2, 3)))


def test_a_binary_model_with_word_vectors_is_restored(tmp_path):
    """The table of vectors is an array of the model, not one of its parameters."""
    rng = np.random.default_rng(0)
    arguments = {
        "tokens": 5, "features": 3, "outputs": 1, "hidden": 4, "layers": 1,
        "embedding": rng.normal(size=(7, 3)).astype(np.float32),
    }  # fmt: skip
    file = ModelFile("lstm", arguments, (5,), ("negative", "positive"), None)
    write_model_file(tmp_path, file)
    again = read_model_file(RunFolder(tmp_path))
    np.testing.assert_array_equal(again.arguments.pop("embedding"), arguments.pop("embedding"))
    assert again.arguments == arguments
    assert again[2:] == file[2:]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "fedgeomed+", "ditto", "scaffold", "fedavg-ft"])
def test_a_new_party_joins_a_saved_run_as_it_joins_the_run_in_memory(tmp_path, method):
    settings = {"reference.local": False, "rounds": 6, "steps": 4, "target": "ill", "party": "hospital",
                "drop": ["patient", "days"], "missing": "mean"}  # fmt: skip
    path = tmp_path / "patients.csv"
    hospital_table().to_csv(path, index=False)
    spec, source = spec_from_command(str(path), [method], settings)
    (saved,) = run_all(spec, tmp_path / "run")
    prepared = prepare(spec, 0, source)
    run = fp.simulate(
        prepared.methods[0], prepared.federation, prepared.model, **prepared.arguments, seed=0
    )
    west = hospital_table(seed=4).head(60)
    west.drop(columns="hospital").to_csv(tmp_path / "west.csv", index=False)
    joined = join_run(saved.path, tmp_path / "west.csv", rounds=3)
    assert joined.party == "west"
    y = (west.ill == "yes").to_numpy().astype(int)
    expected = run.join(joined.inputs(west), y, steps=4, rounds=3)
    np.testing.assert_allclose(
        joined.outputs(west), prepared.model.apply(run.parameters(expected), joined.inputs(west)),
        atol=2e-5,
    )  # fmt: skip


def test_a_party_of_arrays_joins_with_the_classes_of_the_run(tmp_path):
    """The classes are 1 and 2, which are the numbers 0 and 1 of the model."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "arrays"
    folder.mkdir()

    def write(path):
        x = rng.normal(size=(60, 2))
        np.savez(path, x=x, y=np.where(x[:, 0] > 0, 2, 1))
        return x

    for name in ("a", "b"):
        write(folder / f"{name}.npz")
    spec, _ = spec_from_command(str(folder), ["fedavg+"], {"rounds": 5, "reference.local": False})
    (run,) = run_all(spec, tmp_path / "run")
    x = write(tmp_path / "new.npz")
    model = join_run(run.path, tmp_path / "new.npz", rounds=20)
    right = np.mean(model.predict(x) == np.where(x[:, 0] > 0, "2", "1"))
    assert right > 0.9
    np.savez(tmp_path / "new.npz", x=x, y=np.full(60, 3))
    with pytest.raises(fp.SettingError, match="must be one of the classes 1, 2, got 3"):
        join_run(run.path, tmp_path / "new.npz")


def test_a_party_that_does_not_fit_cannot_join(tmp_path):
    run, _ = train(tmp_path)
    west = hospital_table(seed=4).head(60)

    def refused(match, table):
        table.to_csv(tmp_path / "west.csv", index=False)
        with pytest.raises(fp.SettingError, match=match):
            join_run(run.path, tmp_path / "west.csv")

    refused("target must be the column 'ill' of", west.drop(columns="ill"))
    refused(
        "target 'ill' must be one of the classes no, yes, got 'maybe'", west.assign(ill="maybe")
    )
    refused(
        "target 'ill' must be present in every row, got 1", west.assign(ill=[None, *west.ill[1:]])
    )
    refused("must be at least one row, got no rows", west.head(0))
    refused("columns must be those of the training", west.drop(columns="ward"))
    (tmp_path / "run" / "status.json").write_text(
        json.dumps(run.status | {"state": "stopped"}), encoding="utf-8"
    )
    refused("must be a finished run, got a run that is stopped", west)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda run: (run / "model.json").write_text("{}"), r"model\.json cannot be read"),
        (lambda run: (run / "model.json").unlink(), r"model\.json cannot be read: No such file"),
        (
            lambda run: (run / "models" / "north.safetensors").write_bytes(b"12345678{}"),
            r"north\.safetensors cannot be read",
        ),
        (lambda run: (run / "models" / "north.safetensors").unlink(), "must be an existing file"),
    ],
)
def test_a_damaged_run_folder_is_one_line(tmp_path, damage, match):
    run, _ = train(tmp_path)
    damage(run.path)
    with pytest.raises(fp.SettingError, match=match) as error:
        fp.load_model(run.path, party="north")
    assert "\n" not in str(error.value)


def test_parties_and_runs_that_do_not_exist(tmp_path):
    run, _ = train(tmp_path)
    with pytest.raises(
        fp.SettingError, match=r"party must be a party of .*, got 'nord'. Did you mean north\?"
    ):
        fp.load_model(run.path, party="nord")
    with pytest.raises(fp.SettingError, match="path must be a run folder"):
        fp.load_model(tmp_path)
