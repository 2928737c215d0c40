"""``read_run`` returns data frames with the content of the run folder."""

import numpy as np
import pytest

import fedplus as fp
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.experiments.runner import run_all


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    settings = {
        "parties": 3,
        "outliers": 0.34,
        "rounds": 4,
        "steps": 1,
        "evaluate_every": 2,
        "path": [0.0, 1.0],
    }
    spec, source = spec_from_command("digits-robust", ["fedavg+"], settings)
    (run,) = run_all(spec, tmp_path_factory.mktemp("runs") / "run", source)
    return run


def test_data_frames_have_the_values_of_the_run_folder(run):
    frames = fp.read_run(run.path)
    lines = run.lines
    assert frames.rounds["round"].tolist() == [2, 4]
    assert frames.rounds["personal_mean"].tolist() == [line["personal"]["mean"] for line in lines]
    last = frames.parties[frames.parties["round"] == 4]
    assert last["party"].tolist() == ["0", "1", "2"]
    assert last["personal_score"].tolist() == lines[-1]["personal_score"]
    assert frames.figures["round"].tolist() == [1, 2, 3, 4]
    assert frames.references.loc[frames.references["outlier"], "party"].tolist() == ["2"]
    ends = frames.path_scores.query("round == 4").pivot(
        index="party", columns="lambda", values="score"
    )
    np.testing.assert_array_equal(ends[0.0], lines[-1]["personal_score"])
    np.testing.assert_array_equal(ends[1.0], lines[-1]["global_score"])
    assert frames.spec["methods"][0]["name"] == "fedavg+"
    assert frames.model("1")["weight"].shape == frames.model()["weight"].shape == (10, 64)


def test_unknown_parties_and_other_folders_are_rejected(run, tmp_path):
    frames = fp.read_run(run.path)
    with pytest.raises(fp.SettingError, match="party must be one of 0, 1, 2, got '7'"):
        frames.model("7")
    with pytest.raises(fp.SettingError, match="path must be a run folder"):
        fp.read_run(tmp_path)


def test_a_run_without_evaluations_has_empty_data_frames(run, tmp_path):
    import shutil

    shutil.copytree(run.path, tmp_path / "run")
    (tmp_path / "run" / "rounds.jsonl").write_text("")
    frames = fp.read_run(tmp_path / "run")
    assert frames.rounds.empty
    assert frames.parties.empty
    assert frames.figures.empty
