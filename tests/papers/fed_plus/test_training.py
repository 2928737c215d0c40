"""Run folders of studies: trained once, refused where they are of something else."""

import pytest
from papers.fed_plus.specs import spec
from papers.fed_plus.study import Asked

from fedplus.check import SettingError
from fedplus.experiments.run_folder import RunFolder
from papers.fed_plus import jobs, sensitivity, training

TINY = {
    "train.rounds": 2, "train.evaluate_every": 2, "train.steps": 2, "train.cohort": 3,
    "data.parties": 3, "data.name": "digits-robust",
}  # fmt: skip


def tiny(seeds=(0, 1), **more):
    one = spec("sensitivity-outliers", TINY | more, seeds)
    kept = [method for method in one.methods if method.name in ("local", "fedgeomed+")]
    return one.model_copy(update={"methods": kept})


@pytest.fixture
def asked(tmp_path):
    return Asked(tmp_path / "study", seeds=(0, 1))


def test_every_method_and_seed_has_a_run_folder(asked):
    runs = training.trained(asked, {"a": tiny()})["a"]
    told = sorted((run.status["method"], run.status["seed"], run.status["state"]) for run in runs)
    assert told == [
        (method, seed, "finished") for method in ("fedgeomed+", "local") for seed in (0, 1)
    ]
    assert RunFolder(asked.folder / "a").spec["seeds"] == [0, 1]
    assert sorted(jobs.times(asked.folder)) == ["a, seed 0", "a, seed 1"]


def test_one_method_has_its_runs_where_they_are_among_several(asked):
    one = tiny()
    alone = one.model_copy(update={"methods": [m for m in one.methods if m.name == "local"]})
    first = training.trained(asked, {"a": alone})["a"]
    assert [run.path.name for run in first] == ["local-sgd-0", "local-sgd-1"]
    before = [(run.path / "status.json").read_bytes() for run in first]
    assert len(training.trained(asked, {"a": one})["a"]) == 4
    assert [(run.path / "status.json").read_bytes() for run in first] == before


def test_what_is_finished_is_not_trained_again(asked, monkeypatch):
    first = training.trained(asked, {"a": tiny(seeds=(0,))})["a"]
    before = {run.path: (run.path / "status.json").read_bytes() for run in first}
    trained = []
    monkeypatch.setattr(training, "_train", lambda folder, toml: trained.append(toml))
    training.trained(asked, {"a": tiny(seeds=(0,))})
    assert trained == []
    training.trained(asked, {"a": tiny(seeds=(0, 1))})
    assert len(trained) == 1
    assert "seeds = [\n    1,\n]" in trained[0]
    assert {run.path: (run.path / "status.json").read_bytes() for run in first} == before


def test_what_was_stopped_goes_on(asked, monkeypatch):
    """A run that is begun but not finished is not taken for a finished one."""
    one = tiny(seeds=(0,))
    training.trained(asked, {"a": one})
    status = asked.folder / "a" / "fedgeomed+-0" / "status.json"
    status.write_text(status.read_text().replace('"finished"', '"stopped"'))
    assert [run.status["method"] for run in training.runs_of(one, asked.folder / "a")] == ["local"]
    training.trained(asked, {"a": one})
    assert RunFolder(status.parent).status["state"] == "finished"


def test_slim_runs_are_jobs_of_their_own_and_keep_no_models(asked):
    one = tiny(seeds=(0,))
    whole = training.trained(asked, {"a": one})["a"]
    slim = training.trained(asked, {"b": one}, slim=True)["b"]
    assert set(jobs.times(asked.folder)) == {
        "a, seed 0", "b, local SGD, seed 0", "b, FedGeoMed+, seed 0",
    }  # fmt: skip
    for big, small in zip(whole, slim, strict=True):
        assert big.spec == small.spec
        assert big.lines[-1]["personal_score"] == small.lines[-1]["personal_score"]
        assert (big.path / "models").exists()
        assert not (small.path / "models").exists()
        assert not (small.path / "checkpoint").exists()
        assert (small.path / "global.safetensors").exists()


def test_runs_of_other_settings_are_refused(asked):
    training.trained(asked, {"a": tiny(seeds=(0,))})
    with pytest.raises(SettingError, match="got one with other settings"):
        training.trained(asked, {"a": tiny(seeds=(0,), **{"data.outliers": 0.4})})


def test_a_failure_in_a_job_is_not_hidden(asked):
    with pytest.raises(ZeroDivisionError):
        jobs.carry_out(asked, [jobs.Job("bad", lambda: 1 / 0, ())])


def test_sensitivity_collects_what_the_runs_say(tmp_path):
    asked = Asked(tmp_path, (0,), quick=True, only="outliers-0.4", methods=("local", "fedavg"))
    sensitivity.train(asked)
    lines = sensitivity.collect(asked)["sensitivity.csv"].splitlines()
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
