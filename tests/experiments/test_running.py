"""Run folders: what is in them, and that they repeat bit by bit, also after a kill."""

import contextlib
import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

import fedplus as fp
from command import COMMAND, environment, fedplus
from fedplus.experiments.asked import asked
from fedplus.experiments.folder import RunFolder, file_name, run_folders
from fedplus.experiments.running import run_all

SMALL = {"parties": 4, "outliers": 0.25, "rounds": 6, "steps": 2, "evaluate_every": 2}
SAME = ("spec.toml", "parties.json", "rounds.jsonl", "global.safetensors")


def ran(folder, methods=("fedgeomed+",), seeds=(3,), **settings):
    spec, source = asked("digits-robust", methods, SMALL | settings, seeds)
    return run_all(spec, folder, source)


def content(folder):
    """Every file that must be the same when a run is repeated."""
    found = {name: (folder / name).read_bytes() for name in SAME}
    return found | {path.name: path.read_bytes() for path in sorted((folder / "models").iterdir())}


def test_a_run_folder_holds_what_simulate_returns(tmp_path):
    (run,) = ran(tmp_path / "run", path=[0.0, 0.5, 1.0], objective=True)
    federation = fp.data.load("digits-robust", seed=3, parties=4, outliers=0.25)
    method = fp.presets.fedgeomed_plus(eta=0.02, sigma=0.5, delta=0.3)
    expected = fp.simulate(
        method, federation, fp.models.logistic(64, 10), rounds=6, steps=2, batch_size=20, seed=3,
        evaluate_every=2, path=[0.0, 0.5, 1.0], objective=True,
    )  # fmt: skip
    lines = run.lines
    assert [line["round"] for line in lines] == [2, 4, 6]
    assert [r for line in lines for r in line["figures"]["round"]] == [1, 2, 3, 4, 5, 6]
    for i, line in enumerate(lines):
        for name in ("personal_score", "personal_loss", "global_score", "global_loss", "v_norm"):
            np.testing.assert_allclose(line[name], expected.evaluations[name][i], rtol=1e-6)
        np.testing.assert_allclose(
            line["path"]["score"], expected.evaluations["path_score"][i], rtol=1e-6
        )
        assert line["objective"] == pytest.approx(expected.evaluations["objective"][i])
        scores = expected.evaluations["personal_score"][i]
        assert line["personal"]["mean"] == pytest.approx(scores.mean())
        assert line["personal"]["worst"] == pytest.approx(scores.min())
    for k, name in enumerate(federation.names):
        tensors = load_file(run.path / "models" / f"{name}.safetensors")
        np.testing.assert_array_equal(tensors["bias"], expected.models[k][:10])
        np.testing.assert_array_equal(tensors["weight"].ravel(), expected.models[k][10:])
    alone = fp.simulate(
        fp.presets.local_sgd(eta=0.02), federation, fp.models.logistic(64, 10), rounds=6, steps=2,
        seed=3,
    )  # fmt: skip
    np.testing.assert_allclose(run.parties["local"], alone.evaluations["personal_score"][-1])
    assert run.parties["outliers"] == list(federation.info.outliers)
    assert run.status["state"] == "finished"
    assert run.status["round"] == 6
    assert run.env["commit"] is None or len(run.env["commit"]) >= 40


def test_models_load_in_jax(tmp_path):
    from safetensors.flax import load_file as load_in_jax

    (run,) = ran(tmp_path / "run")
    path = run.path / "models" / "0.safetensors"
    params, arrays = load_in_jax(path), load_file(path)
    x = fp.data.load("digits-robust", seed=3, parties=4, outliers=0.25).test.party(0)[0]
    outputs = fp.models.logistic(64, 10).apply(params, x)
    expected = x @ arrays["weight"].T + arrays["bias"]
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


def test_models_load_in_pytorch(tmp_path):
    pytest.importorskip("torch")
    from safetensors.torch import load_file as load_in_torch

    (run,) = ran(tmp_path / "run")
    path = run.path / "models" / "0.safetensors"
    for name, tensor in load_in_torch(path).items():
        np.testing.assert_array_equal(tensor.numpy(), load_file(path)[name])


def test_its_own_specification_repeats_it_bit_by_bit(tmp_path):
    (run,) = ran(tmp_path / "first", methods=("fedavg+",), cohort=2, stragglers={"share": 0.5})
    fedplus("run", run.path / "spec.toml", "--out", tmp_path / "second")
    assert content(tmp_path / "first") == content(tmp_path / "second")


def test_a_study_is_its_runs(tmp_path):
    """Each run of a study is the run by itself, bit by bit, with the local run as its reference."""
    runs = ran(tmp_path / "study", ("fedavg", "local"), (0, 1))
    assert [run.path.name for run in runs] == [
        "fedavg-0", "local-sgd-0", "fedavg-1", "local-sgd-1",
    ]  # fmt: skip
    (alone,) = ran(tmp_path / "alone", ("fedavg",), (1,))
    assert content(runs[2].path) == content(alone.path)
    assert runs[2].parties["local"] == runs[3].lines[-1]["personal_score"]
    assert len(run_folders([tmp_path / "study", runs[0].path])) == 4


@pytest.mark.parametrize("wait", [0.0, 0.7, 1.5])
def test_killed_at_any_time_it_goes_on_to_the_same_end(tmp_path, wait):
    arguments = [
        "run", "digits-robust", "-m", "fedcomed+", "--no-local", "--set", "parties=4", "--rounds",
        "6000", "--set", "evaluate_every=20", "--set", "checkpoint_every=500",
    ]  # fmt: skip
    if not (tmp_path.parent / "whole" / "report.html").exists():
        fedplus(*arguments, "--out", tmp_path.parent / "whole")
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--out", str(folder)], env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        _wait_for(folder / "rounds.jsonl", process)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, process.returncode
    with (folder / "rounds.jsonl").open("ab") as file:
        file.write(b'{"round": 5999, "per')  # As a kill in the middle of a line leaves it.
    fedplus("run", "--resume", folder)
    assert content(folder) == content(tmp_path.parent / "whole")


def _wait_for(path, process, seconds=120):
    """Until the file has a line."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size:
                return
        time.sleep(0.02)
    raise AssertionError(f"{path} did not begin")


def test_ctrl_c_stops_at_once_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [*COMMAND, "run", "digits-robust", "-m", "fedavg", "--no-local", "--rounds", "1000000",
         "--set", "parties=4", "--set", "evaluate_every=50", "--out", str(folder)],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    _wait_for(folder / "rounds.jsonl", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out == ""
    assert err.strip() == f"fedplus: stopped. Go on with: fedplus run --resume {folder}"
    status = RunFolder(folder).status
    assert status["state"] == "stopped"
    assert list((folder / "checkpoint").iterdir())


def test_lines_before_a_damage_are_written_again(tmp_path):
    (run,) = ran(tmp_path / "run", checkpoint_every=4)
    whole = content(run.path)
    status = json.loads((run.path / "status.json").read_text())
    (run.path / "status.json").write_text(json.dumps(status | {"state": "running"}))
    (run.path / "rounds.jsonl").write_bytes(b"\0\0\0\n" + whole["rounds.jsonl"][4:])
    fedplus("run", "--resume", run.path)
    assert content(run.path) == whole


def test_a_run_that_diverges_is_kept_as_failed_and_the_others_go_on(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text(
        "[data]\nname = 'synthetic-regression'\nfeatures = 5\n[train]\nrounds = 20\n"
        "[reference]\nlocal = false\n"
        "[[methods]]\nname = 'fedavg'\neta = 1e9\n[[methods]]\nname = 'fedprox'\n"
    )
    spec, source = asked(str(path))
    failed, good = run_all(spec, tmp_path / "study", source)
    assert failed.status["state"] == "failed"
    assert "NaN or Inf" in failed.status["message"]
    assert good.status["state"] == "finished"


def test_party_names_become_file_names(tmp_path):
    names = ["a/b", "..", ".", "", "ü", "a" * 300, "a" * 299 + "b", "CON", "a b", "%2E"]
    made = [file_name(name) for name in names]
    assert len(set(made)) == len(names)
    for name in made:
        (tmp_path / name).write_text("x")
    assert len(list(tmp_path.iterdir())) == len(names)
    assert all(len(os.fsencode(name)) < 255 for name in made)
