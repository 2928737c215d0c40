"""Run folders have the results of ``simulate``, and resumed and repeated runs give the same bytes."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

import fedplus as fp
from command import COMMAND, environment, fedplus, refused
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.experiments.run_folder import RunFolder, find_run_folders, party_file_name
from fedplus.experiments.runner import run_all, run_paths

SMALL = {"parties": 4, "outliers": 0.25, "rounds": 6, "steps": 2, "evaluate_every": 2}
REPRODUCIBLE = ("spec.toml", "parties.json", "rounds.jsonl", "global.safetensors")


def run_experiment(folder, methods=("fedgeomed+",), seeds=(3,), **settings):
    spec, source = spec_from_command("digits-robust", methods, SMALL | settings, seeds)
    return run_all(spec, folder, source)


def reproducible_files(folder):
    """Return the content of every file that must be the same when a run is repeated."""
    files = {name: (folder / name).read_bytes() for name in REPRODUCIBLE}
    return files | {path.name: path.read_bytes() for path in sorted((folder / "models").iterdir())}


def set_state(run, state):
    status = json.loads((run.path / "status.json").read_text())
    (run.path / "status.json").write_text(json.dumps(status | {"state": state}))


def test_a_run_folder_holds_what_simulate_returns(tmp_path):
    (run,) = run_experiment(tmp_path / "run", path=[0.0, 0.5, 1.0], objective=True)
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

    (run,) = run_experiment(tmp_path / "run")
    path = run.path / "models" / "0.safetensors"
    params, arrays = load_in_jax(path), load_file(path)
    x = fp.data.load("digits-robust", seed=3, parties=4, outliers=0.25).test.party(0)[0]
    outputs = fp.models.logistic(64, 10).apply(params, x)
    expected = x @ arrays["weight"].T + arrays["bias"]
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


def test_models_load_in_pytorch(tmp_path):
    pytest.importorskip("torch")
    from safetensors.torch import load_file as load_in_torch

    (run,) = run_experiment(tmp_path / "run")
    path = run.path / "models" / "0.safetensors"
    for name, tensor in load_in_torch(path).items():
        np.testing.assert_array_equal(tensor.numpy(), load_file(path)[name])


def test_the_specification_in_a_run_folder_repeats_the_run_bit_by_bit(tmp_path):
    (run,) = run_experiment(
        tmp_path / "first", methods=("fedavg+",), cohort=2, stragglers={"share": 0.5}
    )
    fedplus("run", run.path / "spec.toml", "--out", tmp_path / "second")
    assert reproducible_files(tmp_path / "first") == reproducible_files(tmp_path / "second")


def test_a_run_of_a_study_equals_the_same_run_alone(tmp_path):
    """They are equal bit by bit, and the local run is the reference of the other methods."""
    runs = run_experiment(tmp_path / "study", ("fedavg", "local"), (0, 1))
    assert [run.path.name for run in runs] == [
        "fedavg-0", "local-sgd-0", "fedavg-1", "local-sgd-1",
    ]  # fmt: skip
    (alone,) = run_experiment(tmp_path / "alone", ("fedavg",), (1,))
    assert reproducible_files(runs[2].path) == reproducible_files(alone.path)
    assert runs[2].parties["local"] == runs[3].lines[-1]["personal_score"]
    assert len(find_run_folders([tmp_path / "study", runs[0].path])) == 4


@pytest.mark.parametrize("wait", [0.0, 0.7, 1.5])
def test_a_run_killed_at_any_time_resumes_to_the_same_result(tmp_path, wait):
    arguments = [
        "run", "digits-robust", "-m", "fedcomed+", "--no-local", "--set", "parties=4", "--rounds",
        "6000", "--set", "evaluate_every=20", "--set", "checkpoint_every=500",
    ]  # fmt: skip
    if not (tmp_path.parent / "uninterrupted" / "report.html").exists():
        fedplus(*arguments, "--out", tmp_path.parent / "uninterrupted")
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
        file.write(b'{"round": 5999, "per')  # A process killed while writing leaves half a line.
    fedplus("run", "--resume", folder)
    assert reproducible_files(folder) == reproducible_files(tmp_path.parent / "uninterrupted")


def _wait_for(path, process, seconds=120):
    """Wait until the file is not empty."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size:
                return
        time.sleep(0.02)
    raise AssertionError(f"{path} is still empty")


def test_ctrl_c_stops_a_run_and_prints_how_to_resume_it(tmp_path):
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
    assert err.strip() == f"fedplus: stopped. Continue with: fedplus run --resume {folder}"
    status = RunFolder(folder).status
    assert status["state"] == "stopped"
    assert list((folder / "checkpoint").iterdir())


def test_resuming_repairs_damaged_lines_before_the_checkpoint(tmp_path):
    (run,) = run_experiment(tmp_path / "run", checkpoint_every=4)
    intact = reproducible_files(run.path)
    set_state(run, "running")
    (run.path / "rounds.jsonl").write_bytes(b"\0\0\0\n" + intact["rounds.jsonl"][4:])
    fedplus("run", "--resume", run.path)
    assert reproducible_files(run.path) == intact


def test_a_run_that_diverges_is_kept_as_failed_and_the_others_go_on(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text(
        "[data]\nname = 'synthetic-regression'\nfeatures = 5\n[train]\nrounds = 20\n"
        "[reference]\nlocal = false\n"
        "[[methods]]\nname = 'fedavg'\neta = 1e9\n[[methods]]\nname = 'fedprox'\n"
    )
    spec, source = spec_from_command(str(path))
    failed, good = run_all(spec, tmp_path / "study", source)
    assert failed.status["state"] == "failed"
    assert "local steps of all active parties diverged" in failed.status["message"]
    assert good.status["state"] == "finished"


def test_any_party_names_give_different_valid_file_names(tmp_path):
    names = ["a/b", "..", ".", "", "ü", "a" * 300, "a" * 299 + "b", "CON", "a b", "%2E"]
    file_names = [party_file_name(name) for name in names]
    assert len(set(file_names)) == len(names)
    for name in file_names:
        (tmp_path / name).write_text("x")
    assert len(list(tmp_path.iterdir())) == len(names)
    assert all(len(os.fsencode(name)) < 255 for name in file_names)


def test_a_folder_that_another_process_uses_is_rejected(tmp_path):
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [*COMMAND, "run", "digits-robust", "-m", "fedavg", "--no-local", "--rounds", "1000000",
         "--set", "parties=4", "--set", "evaluate_every=50", "--out", str(folder)],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        _wait_for(folder / "rounds.jsonl", process)
        assert "another run is using" in refused("run", "--resume", folder)
        process.send_signal(signal.SIGKILL)
    assert RunFolder(folder).lines


def test_a_run_without_a_checkpoint_restarts_with_its_current_specification(tmp_path):
    """The run is killed before its first checkpoint, and then its specification changes."""
    (run,) = run_experiment(tmp_path / "run")
    shutil.rmtree(run.path / "checkpoint")
    set_state(run, "running")
    spec = (run.path / "spec.toml").read_text()
    assert "rounds = 6" in spec
    (run.path / "spec.toml").write_text(spec.replace("rounds = 6", "rounds = 4"))
    fedplus("run", "--resume", run.path)
    (fresh,) = run_experiment(tmp_path / "fresh", rounds=4)
    assert reproducible_files(run.path) == reproducible_files(fresh.path)


def test_resuming_with_another_path_is_rejected_in_one_line(tmp_path):
    (run,) = run_experiment(tmp_path / "run", checkpoint_every=2)
    set_state(run, "stopped")
    spec = (run.path / "spec.toml").read_text()
    assert "path = []" in spec
    (run.path / "spec.toml").write_text(spec.replace("path = []", "path = [0.5]"))
    assert "its path is [], this run's is [0.5]" in refused("run", "--resume", run.path)


def test_a_key_missing_from_the_specification_gets_its_default_again(tmp_path):
    (run,) = run_experiment(tmp_path / "run")
    spec = (run.path / "spec.toml").read_text()
    (run.path / "spec.toml").write_text(spec.replace("batch_size = 20\n", ""))
    fedplus("run", "--resume", run.path)


def test_new_seeds_for_a_run_folders_specification_also_seed_the_data(tmp_path):
    (run,) = run_experiment(tmp_path / "run", seeds=(0,))
    spec, _ = spec_from_command(str(run.path / "spec.toml"), seeds=(0, 1))
    assert spec.for_run(0, 1).data.seed == 1


def test_a_diverging_local_reference_gives_a_warning_and_the_run_continues(tmp_path):
    spec, source = spec_from_command(
        "synthetic-regression", ["fedavg"],
        {"features": 5, "rounds": 20, "reference.eta": 1e9},
    )  # fmt: skip
    with pytest.warns(UserWarning, match="trains each party alone, diverges with eta = 1e\\+09"):
        (run,) = run_all(spec, tmp_path / "run", source)
    assert run.parties["local"] is None
    assert run.status["state"] == "finished"


def test_a_local_run_without_finite_scores_is_no_reference(tmp_path):
    out, _ = fedplus(
        "compare", "synthetic-regression", "--methods", "fedavg", "--set", "eta=1e9", "--set",
        "evaluate_every=1", "--rounds", "30", "--seeds", "1", "--out", tmp_path / "r", status=1,
    )  # fmt: skip
    assert "failed 1 of 1" in out


def test_all_methods_of_a_seed_share_one_local_training(tmp_path, monkeypatch):
    from fedplus.experiments import runner

    calls = []
    train_locally = runner._train_locally
    monkeypatch.setattr(
        runner, "_train_locally", lambda *args: calls.append(args) or train_locally(*args)
    )
    first, second = run_experiment(tmp_path / "study", ("fedavg", "fedprox"), (0,))
    assert len(calls) == 1
    assert first.parties == second.parties


def test_labels_that_differ_have_folders_that_differ(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text(
        "[data]\nname = 'digits-robust'\n[[methods]]\nname = 'fedavg'\nlabel = 'a δ?'\n"
        "[[methods]]\nname = 'fedavg'\nlabel = 'a δ!'\n"
    )
    spec, _ = spec_from_command(str(path))
    names = [p.name for p in run_paths(spec, tmp_path).values()]
    assert names == ["a-δ-0", "a-δ-1-0"]
