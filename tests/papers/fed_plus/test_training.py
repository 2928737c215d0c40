"""Training of studies: finished runs are not repeated, runs with other settings are rejected."""

import pytest
from papers.fed_plus.specs import load_spec
from papers.fed_plus.study import StudyOptions

from fedplus.check import SettingError
from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.spec import Data
from papers.fed_plus import jobs, sensitivity, training

TINY = {
    "train.rounds": 2, "train.evaluate_every": 2, "train.steps": 2, "train.cohort": 3,
}  # fmt: skip


def small_spec(seeds=(0, 1), outliers=0.34):
    spec = load_spec("sensitivity-outliers", TINY, seeds)
    methods = [method for method in spec.methods if method.name in ("local", "fedgeomed+")]
    data = Data(name="digits-robust", parties=3, outliers=outliers)
    return spec.model_copy(update={"methods": methods, "data": data})


@pytest.fixture
def options(tmp_path):
    return StudyOptions(tmp_path / "study", seeds=(0, 1))


def test_every_method_and_seed_has_a_run_folder(options):
    runs = training.train_specs(options, {"a": small_spec()})["a"]
    states = sorted((run.status["method"], run.status["seed"], run.status["state"]) for run in runs)
    assert states == [
        (method, seed, "finished") for method in ("fedgeomed+", "local") for seed in (0, 1)
    ]
    assert RunFolder(options.folder / "a").spec["seeds"] == [0, 1]
    assert sorted(jobs.read_durations(options.folder)) == ["a, seed 0", "a, seed 1"]


def test_a_single_method_uses_the_same_folders_as_several(options):
    spec = small_spec()
    alone = spec.model_copy(update={"methods": [m for m in spec.methods if m.name == "local"]})
    first = training.train_specs(options, {"a": alone})["a"]
    assert [run.path.name for run in first] == ["local-sgd-0", "local-sgd-1"]
    before = [(run.path / "status.json").read_bytes() for run in first]
    assert len(training.train_specs(options, {"a": spec})["a"]) == 4
    assert [(run.path / "status.json").read_bytes() for run in first] == before


def test_finished_runs_are_not_trained_again(options, monkeypatch):
    first = training.train_specs(options, {"a": small_spec(seeds=(0,))})["a"]
    before = {run.path: (run.path / "status.json").read_bytes() for run in first}
    trained = []
    monkeypatch.setattr(training, "_train", lambda folder, toml: trained.append(toml))
    training.train_specs(options, {"a": small_spec(seeds=(0,))})
    assert trained == []
    training.train_specs(options, {"a": small_spec(seeds=(0, 1))})
    assert len(trained) == 1
    assert "seeds = [\n    1,\n]" in trained[0]
    assert {run.path: (run.path / "status.json").read_bytes() for run in first} == before


def test_a_stopped_run_is_resumed(options, monkeypatch):
    """A run that was started but not finished does not count as ended."""
    spec = small_spec(seeds=(0,))
    training.train_specs(options, {"a": spec})
    status = options.folder / "a" / "fedgeomed+-0" / "status.json"
    status.write_text(status.read_text().replace('"finished"', '"stopped"'))
    assert [run.status["method"] for run in training.ended_runs(spec, options.folder / "a")] == [
        "local"
    ]
    training.train_specs(options, {"a": spec})
    assert RunFolder(status.parent).status["state"] == "finished"


def test_slim_runs_are_separate_jobs_without_models(options):
    spec = small_spec(seeds=(0,))
    whole = training.train_specs(options, {"a": spec})["a"]
    slim = training.train_specs(options, {"b": spec}, slim=True)["b"]
    assert set(jobs.read_durations(options.folder)) == {
        "a, seed 0", "b, local SGD, seed 0", "b, FedGeoMed+, seed 0",
    }  # fmt: skip
    for whole_run, slim_run in zip(whole, slim, strict=True):
        assert whole_run.spec == slim_run.spec
        assert whole_run.lines[-1]["personal_score"] == slim_run.lines[-1]["personal_score"]
        assert (whole_run.path / "models").exists()
        assert not (slim_run.path / "models").exists()
        assert not (slim_run.path / "checkpoint").exists()
        assert (slim_run.path / "global.safetensors").exists()


def test_runs_with_other_settings_are_rejected(options):
    training.train_specs(options, {"a": small_spec(seeds=(0,))})
    with pytest.raises(SettingError, match="got one with other settings"):
        training.train_specs(options, {"a": small_spec(seeds=(0,), outliers=0.4)})


def test_a_failure_in_a_job_is_not_hidden(options):
    with pytest.raises(ZeroDivisionError):
        jobs.run_jobs(options, [jobs.Job("bad", lambda: 1 / 0, ())])


def test_sensitivity_collects_the_scores_of_the_runs(tmp_path):
    options = StudyOptions(
        tmp_path, (0,), quick=True, only="outliers-0.4", methods=("local", "fedavg")
    )
    sensitivity.train(options)
    lines = sensitivity.collect(options)["sensitivity.csv"].splitlines()
    head = lines[0].split(",")
    rows = [dict(zip(head, line.split(","), strict=True)) for line in lines[1:]]
    assert [row["method"] for row in rows] == ["local", "fedavg", "majority"]
    assert {(row["sweep"], row["value"]) for row in rows} == {("outliers", "0.4")}
    for row in rows[:2]:
        run = RunFolder(
            tmp_path / "outliers-0.4" / f"{'local-sgd' if row['method'] == 'local' else 'fedavg'}-0"
        )
        scores = run.lines[-1]["personal_score"]
        assert len(run.parties["outliers"]) == 4
        assert float(row["mean"]) == pytest.approx(sum(scores) / 10, rel=1e-5)
        assert float(row["outliers"]) == pytest.approx(sum(scores[6:]) / 4, rel=1e-5)
