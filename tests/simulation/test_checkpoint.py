"""Runs that are killed, stopped or damaged, and go on."""

import functools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fedplus as fp
from fedplus import presets
from fedplus._checkpoint import Checkpoint, latest_checkpoint, load, save
from fedplus.simulation import DivergedError
from small_federation import CLASSIFIER, federation

HERE = Path(__file__).parent
ROUNDS = 200
"""For each time that a run is killed, and for its end."""
ASKED = {"rounds": 12, "cohort": 3, "steps": 3, "batch_size": 8}
METHOD = presets.fedgeomed_plus(eta=0.05, sigma=1.0, delta=0.05)


def started(folder, out, cache, rounds):
    env = os.environ | {
        "PYTHONPATH": str(HERE.parent),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, str(HERE / "resumable_run.py"), str(folder), str(rounds), str(out)]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def latest_round(folder):
    found = sorted(folder.glob("round-*.safetensors")) if folder.is_dir() else []
    return int(found[-1].stem.split("-")[1]) if found else 0


def wait_for(process, folder, more_than):
    """Until a checkpoint of a later round is there."""
    while process.poll() is None and latest_round(folder) <= more_than:
        time.sleep(0.005)
    assert process.poll() is None, f"ended by itself: {process.communicate()}"


def finish(process):
    _, told = process.communicate()
    assert process.returncode == 0, told


def assert_same_run(one, other):
    with np.load(one) as a, np.load(other) as b:
        assert set(a) == set(b)
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, cache):
    """The end of a run of so many rounds that was left alone."""

    @functools.cache
    def run(rounds):
        out = tmp_path_factory.mktemp("undisturbed") / "out.npz"
        finish(started("", out, cache, rounds))
        return out

    return run


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_run_killed_again_and_again_ends_as_one_that_was_not(tmp_path, cache, undisturbed, kills):
    """SIGKILL, at a random instant after some new checkpoint: bit by bit the same, history included."""
    folder, out, rounds = tmp_path / "checkpoints", tmp_path / "out.npz", ROUNDS * (kills + 1)
    chance = random.Random(0)
    for _ in range(kills):
        process = started(folder, out, cache, rounds)
        wait_for(process, folder, latest_round(folder))
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.communicate()
        assert not out.exists()
    finish(started(folder, out, cache, rounds))
    assert_same_run(out, undisturbed(rounds))


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on(tmp_path, cache, undisturbed):
    folder, out, rounds = tmp_path / "checkpoints", tmp_path / "out.npz", ROUNDS * 4
    process = started(folder, out, cache, rounds)
    wait_for(process, folder, 0)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode not in (0, -signal.SIGKILL)
    assert f"Go on with resume=True: {folder}" in told
    finish(started(folder, out, cache, rounds))
    assert_same_run(out, undisturbed(rounds))


def test_more_rounds_are_the_same_as_all_at_once(tmp_path):
    def run(rounds, **more):
        asked = ASKED | {"rounds": rounds, "evaluate_every": 3} | more
        return fp.simulate(METHOD, federation(), CLASSIFIER, **asked)

    run(6, checkpoint=tmp_path)
    further = run(12, checkpoint=tmp_path, resume=True)
    at_once = run(12)
    np.testing.assert_array_equal(further.models, at_once.models)
    for name in at_once.evaluations:
        np.testing.assert_array_equal(further.evaluations[name], at_once.evaluations[name])


def test_a_sweep_goes_on_too(tmp_path):
    methods = [presets.fedavg_plus(eta=0.05, sigma=1.0, delta=delta) for delta in (0.1, 1.0)]
    asked = ASKED | {"seeds": [0, 1]}
    fp.sweep(methods, federation(), CLASSIFIER, checkpoint=tmp_path, **(asked | {"rounds": 5}))
    further = fp.sweep(methods, federation(), CLASSIFIER, checkpoint=tmp_path, resume=True, **asked)
    at_once = fp.sweep(methods, federation(), CLASSIFIER, **asked)
    for one, other in zip(further, at_once, strict=True):
        np.testing.assert_array_equal(one.models, other.models)


@pytest.fixture
def folder(tmp_path):
    fp.simulate(METHOD, federation(), CLASSIFIER, checkpoint=tmp_path, checkpoint_every=3, **ASKED)
    return tmp_path


def resumed(folder, **more):
    return fp.simulate(
        METHOD, federation(), CLASSIFIER, checkpoint=folder, resume=True,
        **(ASKED | {"rounds": 15} | more),
    )  # fmt: skip


def test_two_checkpoints_are_kept_and_nothing_else(folder):
    kept = sorted(p.name for p in folder.iterdir())
    assert kept == ["round-000000009.safetensors", "round-000000012.safetensors"]


def test_what_a_killed_process_left_unfinished_goes(tmp_path):
    (tmp_path / ".round-000000003.safetensors.4711.tmp").write_bytes(b"half")
    kept = save(tmp_path, Checkpoint(4, {}, {"w": np.zeros(2)}))
    assert list(tmp_path.iterdir()) == [kept]


def test_rounds_done_anew_take_the_place_of_later_ones(tmp_path):
    for round_ in (7, 8, 9, 4, 5):
        save(tmp_path, Checkpoint(round_, {}, {"a": np.array(round_)}))
    assert sorted(load(path).arrays["a"].item() for path in tmp_path.iterdir()) == [4, 5]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_damaged_checkpoint_is_told_and_the_one_before_still_serves(folder, damage):
    path = latest_checkpoint(folder)
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[-5] ^= 1
    spoilt = {
        "cut": bytes(content[:-9]), "flip": bytes(content), "empty": b"", "text": b"no checkpoint",
    }  # fmt: skip
    path.write_bytes(spoilt[damage])
    with pytest.raises(
        fp.SettingError, match=r"is damaged .* still there: round-000000009"
    ) as told:
        resumed(folder)
    assert "\n" not in str(told.value)
    path.unlink()
    run = resumed(folder)
    expected = fp.simulate(METHOD, federation(), CLASSIFIER, **(ASKED | {"rounds": 15}))
    np.testing.assert_array_equal(run.models, expected.models)


def test_an_earlier_run_is_not_written_over(folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(
        fp.SettingError, match=r"checkpoint must be an empty folder, got .* earlier run"
    ):
        fp.simulate(METHOD, federation(), CLASSIFIER, checkpoint=folder, **ASKED)
    with pytest.raises(fp.SettingError, match="rounds must be at least 12"):
        resumed(folder, rounds=5)
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_a_foreign_file_is_told(folder):
    from safetensors.numpy import save_file

    save_file({"weight": np.zeros(3)}, folder / "round-000000099.safetensors")
    with pytest.raises(fp.SettingError, match="not a checkpoint of fedplus"):
        resumed(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, r"its seeds is \[0\], this run's is \[1\]"),
        ({"batch_size": 9}, "its batch_size is 8, this run's is 9"),
        ({"cohort": 4}, "its cohort is"),
        ({"steps": 4}, "its steps is"),
    ],
)
def test_another_runs_checkpoint_is_told(folder, change, told):
    with pytest.raises(fp.SettingError, match=told):
        resumed(folder, **change)


def test_other_data_is_told(folder):
    other = federation(seed=1)
    with pytest.raises(fp.SettingError, match="its federation is"):
        fp.simulate(METHOD, other, CLASSIFIER, checkpoint=folder, resume=True, **ASKED)


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(3), "c": np.array([True, False])}
    path = save(tmp_path, Checkpoint(7, {"seed": 1}, arrays))
    back = load(path)
    assert back.round == 7
    assert back.settings == {"seed": 1}
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array)
        assert back.arrays[name].dtype == array.dtype


def test_divergence_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path):
    """With a rate a hundred times too high a party's quadratic loss blows up, after some rounds."""
    import jax.numpy as jnp

    from fedplus.models import REGRESSION, Model

    rng = np.random.default_rng(0)
    scales = (1.0, 1.0, 3.2)
    data = [(s * rng.normal(size=(40, 2)), rng.normal(size=40)) for s in scales]
    model = Model(lambda key: {"w": jnp.ones(2)}, lambda p, x: x @ p["w"], REGRESSION)
    with pytest.raises(
        DivergedError, match=r"In round \d+ the models of 1 parties \('2'\)"
    ) as told:
        fp.simulate(
            presets.local_sgd(eta=0.5), fp.Federation.from_arrays(data), model, rounds=300, steps=2,
            batch_size=32, checkpoint=tmp_path, checkpoint_every=1,
        )  # fmt: skip
    assert "try a tenth of eta" in str(told.value)
    assert str(latest_checkpoint(tmp_path)) in str(told.value)
    good = load(latest_checkpoint(tmp_path))
    assert np.isfinite(good.arrays["state/w_local"]).all()
    assert good.round > 3
