"""Runs that are stopped or killed resume from a checkpoint; damaged or foreign files are rejected."""

import functools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

import fedplus as fp
from fedplus import presets
from fedplus._checkpoint_file import Checkpoint, latest_checkpoint, load, save
from fedplus.simulation import DivergedError
from small_federation import CLASSIFIER, federation

HERE = Path(__file__).parent
ROUNDS = 200
"""Rounds per kill, and for the end of the run."""
SETTINGS = {"rounds": 12, "cohort": 3, "steps": 3, "batch_size": 8}
METHOD = presets.fedgeomed_plus(eta=0.05, sigma=1.0, delta=0.05)


def start(folder, out, cache, rounds):
    """Start ``resumable_run.py`` in a process of its own."""
    env = os.environ | {
        "PYTHONPATH": str(HERE.parent),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, str(HERE / "resumable_run.py"), str(folder), str(rounds), str(out)]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def latest_round(folder):
    paths = sorted(folder.glob("round-*.safetensors")) if folder.is_dir() else []
    return int(paths[-1].stem.split("-")[1]) if paths else 0


def wait_for_checkpoint(process, folder, after):
    """Wait until there is a checkpoint of a later round."""
    while process.poll() is None and latest_round(folder) <= after:
        time.sleep(0.005)
    assert process.poll() is None, f"ended by itself: {process.communicate()}"


def finish(process):
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr


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
    """Return a function that gives the results of an uninterrupted run of this many rounds."""

    @functools.cache
    def run(rounds):
        out = tmp_path_factory.mktemp("undisturbed") / "out.npz"
        finish(start("", out, cache, rounds))
        return out

    return run


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_run_that_is_killed_repeatedly_has_the_same_result(tmp_path, cache, undisturbed, kills):
    """The run gets SIGKILL at random times after a new checkpoint; results are equal bit by bit."""
    folder, out, rounds = tmp_path / "checkpoints", tmp_path / "out.npz", ROUNDS * (kills + 1)
    rng = random.Random(0)
    for _ in range(kills):
        process = start(folder, out, cache, rounds)
        wait_for_checkpoint(process, folder, latest_round(folder))
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        process.communicate()
        assert not out.exists()
    finish(start(folder, out, cache, rounds))
    assert_same_run(out, undisturbed(rounds))


def test_ctrl_c_saves_a_checkpoint_and_says_how_to_resume(tmp_path, cache, undisturbed):
    folder, out, rounds = tmp_path / "checkpoints", tmp_path / "out.npz", ROUNDS * 4
    process = start(folder, out, cache, rounds)
    wait_for_checkpoint(process, folder, 0)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode not in (0, -signal.SIGKILL)
    assert f"To continue, call again with resume=True: {folder}" in stderr
    finish(start(folder, out, cache, rounds))
    assert_same_run(out, undisturbed(rounds))


def test_a_run_resumed_with_more_rounds_is_the_uninterrupted_run(tmp_path):
    def run(rounds, **more):
        settings = SETTINGS | {"rounds": rounds, "evaluate_every": 3} | more
        return fp.simulate(METHOD, federation(), CLASSIFIER, **settings)

    run(6, checkpoint=tmp_path)
    resumed = run(12, checkpoint=tmp_path, resume=True)
    uninterrupted = run(12)
    np.testing.assert_array_equal(resumed.models, uninterrupted.models)
    for name, values in uninterrupted.evaluations.items():
        np.testing.assert_array_equal(resumed.evaluations[name], values)


def test_a_resumed_sweep_is_the_uninterrupted_sweep(tmp_path):
    methods = [presets.fedavg_plus(eta=0.05, sigma=1.0, delta=delta) for delta in (0.1, 1.0)]
    settings = SETTINGS | {"seeds": [0, 1]}
    saved = {"checkpoint": tmp_path}
    fp.sweep(methods, federation(), CLASSIFIER, **saved, **(settings | {"rounds": 5}))
    resumed = fp.sweep(methods, federation(), CLASSIFIER, **saved, resume=True, **settings)
    uninterrupted = fp.sweep(methods, federation(), CLASSIFIER, **settings)
    for one, other in zip(resumed, uninterrupted, strict=True):
        np.testing.assert_array_equal(one.models, other.models)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with the checkpoints of a finished run."""
    settings = SETTINGS | {"checkpoint": tmp_path, "checkpoint_every": 3}
    fp.simulate(METHOD, federation(), CLASSIFIER, **settings)
    return tmp_path


def resume(folder, **more):
    settings = SETTINGS | {"rounds": 15} | more
    return fp.simulate(METHOD, federation(), CLASSIFIER, checkpoint=folder, resume=True, **settings)


def test_a_folder_has_the_last_two_checkpoints_and_nothing_else(folder):
    names = sorted(p.name for p in folder.iterdir())
    assert names == ["round-000000009.safetensors", "round-000000012.safetensors"]


def test_unfinished_files_of_a_killed_process_are_deleted(tmp_path):
    (tmp_path / ".round-000000003.safetensors.4711.tmp").write_bytes(b"half")
    path = save(tmp_path, Checkpoint(4, {}, {"w": np.zeros(2)}))
    assert list(tmp_path.iterdir()) == [path]


def test_repeated_rounds_replace_checkpoints_of_later_rounds(tmp_path):
    for round_ in (7, 8, 9, 4, 5):
        save(tmp_path, Checkpoint(round_, {}, {"a": np.array(round_)}))
    assert sorted(load(path).arrays["a"].item() for path in tmp_path.iterdir()) == [4, 5]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_damaged_checkpoint_is_rejected_and_the_previous_one_can_be_used(folder, damage):
    path = latest_checkpoint(folder)
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[-5] ^= 1
    damaged = {
        "cut": bytes(content[:-9]), "flip": bytes(content), "empty": b"", "text": b"no checkpoint",
    }  # fmt: skip
    path.write_bytes(damaged[damage])
    with pytest.raises(
        fp.SettingError, match=r"is damaged .* checkpoint before it is round-000000009"
    ) as error:
        resume(folder)
    assert "\n" not in str(error.value)
    path.unlink()
    run = resume(folder)
    expected = fp.simulate(METHOD, federation(), CLASSIFIER, **(SETTINGS | {"rounds": 15}))
    np.testing.assert_array_equal(run.models, expected.models)


def test_an_earlier_run_is_not_overwritten(folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(
        fp.SettingError, match=r"checkpoint must be an empty folder, got .* earlier run"
    ):
        fp.simulate(METHOD, federation(), CLASSIFIER, checkpoint=folder, **SETTINGS)
    with pytest.raises(fp.SettingError, match="rounds must be at least 12"):
        resume(folder, rounds=5)
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_a_file_of_another_program_is_rejected(folder):
    from safetensors.numpy import save_file

    save_file({"weight": np.zeros(3)}, folder / "round-000000099.safetensors")
    with pytest.raises(fp.SettingError, match="not a checkpoint of fedplus"):
        resume(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, r"its seeds is \[0\], this run's is \[1\]"),
        ({"batch_size": 9}, "its batch_size is 8, this run's is 9"),
        ({"cohort": 4}, "its cohort is"),
        ({"steps": 4}, "its steps is"),
    ],
)
def test_a_checkpoint_of_a_run_with_other_settings_is_rejected(folder, change, message):
    with pytest.raises(fp.SettingError, match=message):
        resume(folder, **change)


def test_a_checkpoint_of_a_run_with_other_data_is_rejected(folder):
    other = federation(seed=1)
    with pytest.raises(fp.SettingError, match="its federation is"):
        fp.simulate(METHOD, other, CLASSIFIER, checkpoint=folder, resume=True, **SETTINGS)


def test_load_returns_what_save_has_written(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(3), "c": np.array([True, False])}
    path = save(tmp_path, Checkpoint(7, {"seed": 1}, arrays))
    loaded = load(path)
    assert loaded.round == 7
    assert loaded.settings == {"seed": 1}
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded.arrays[name], array)
        assert loaded.arrays[name].dtype == array.dtype


def test_divergence_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path):
    """The learning rate explodes in round 6, so that even smaller steps cannot save a party."""
    import jax.numpy as jnp

    from fedplus.models import REGRESSION, Model
    from fedplus.schedules import WarmUp

    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(40, 2)), rng.normal(size=40)) for _ in range(3)]
    model = Model(lambda key: {"w": jnp.ones(2)}, lambda p, x: x @ p["w"], REGRESSION)
    eta = WarmUp(rounds=5, first=0.1, then=1e20)
    with pytest.raises(
        DivergedError, match=r"In round 6 the local steps of all active parties .* '0', '1', '2'\."
    ) as error:
        fp.simulate(
            presets.local_sgd(eta=eta), fp.Federation.from_arrays(data), model, rounds=300, steps=2,
            batch_size=32, checkpoint=tmp_path, checkpoint_every=1,
        )  # fmt: skip
    assert "try a tenth of eta" in str(error.value)
    assert str(latest_checkpoint(tmp_path)) in str(error.value)
    last_good = load(latest_checkpoint(tmp_path))
    assert np.isfinite(last_good.arrays["state/w_local"]).all()
    assert last_good.round == 5


LAYOUT = (("bias", 3), ("weight", 12))
EXTENDED = {
    "schedules, own Adam": presets.fedgeomed_plus(eta=0.05, sigma=1.0).replace(
        eta=fp.schedules.Cosine(0.05, 0.01, rounds=10), lam=fp.schedules.WarmUp(rounds=5),
        optimizer="adam", keep_optimizer_state=True,
    ),
    "private layers, server": presets.fedper(LAYOUT, eta=0.05, private=("bias",)).replace(
        server_optimizer=fp.server_optimizer.AdaptiveServer("yogi", 0.05), optimizer="momentum",
        keep_optimizer_state=True,
    ),
    "server momentum": presets.fedavgm(eta=0.05).replace(fine_tune=2),
    "Optax on the server": presets.mr_mtl(eta=0.05, lam=1.0).replace(
        server_optimizer=fp.server_optimizer.OptaxServer(optax.adam(0.1))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTENDED)
def test_every_part_of_the_state_is_resumed_bit_by_bit(name, tmp_path):
    """The state has models, the parties that joined, all optimizers' states, and schedules."""
    settings = SETTINGS | {"cohort": 2, "seed": 3}
    straight = fp.simulate(EXTENDED[name], federation(), CLASSIFIER, **settings)
    for rounds in (2, 7, 12):
        resumed = fp.simulate(
            EXTENDED[name], federation(), CLASSIFIER, checkpoint=tmp_path, resume=rounds > 2,
            **settings | {"rounds": rounds},
        )  # fmt: skip
    assert jax.tree.structure(straight.state) == jax.tree.structure(resumed.state)
    for one, other in zip(
        jax.tree.leaves(straight.state), jax.tree.leaves(resumed.state), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(straight.models, resumed.models)


OPTIMIZED = {
    "Optax on the server": lambda rate: presets.fedavg(eta=0.05).replace(
        server_optimizer=fp.server_optimizer.OptaxServer(optax.adam(rate))
    ),
    "a function for the parties": lambda rate: presets.fedavg(eta=0.05).replace(
        optimizer=lambda eta: optax.sgd(eta, momentum=rate)
    ),
    "a function for a baseline": lambda rate: fp.baselines.Ditto(
        eta=0.05, lam=0.5, optimizer=lambda eta: optax.sgd(eta, momentum=rate)
    ),
    "a schedule of Optax": lambda rate: presets.fedavg(eta=0.05).replace(
        optimizer=lambda eta: optax.sgd(optax.exponential_decay(eta, 3, rate)),
        keep_optimizer_state=True,
    ),
}


@pytest.mark.parametrize("name", OPTIMIZED)
def test_another_setting_of_an_optimizer_is_noticed_on_resume(name, tmp_path):
    """The ``repr`` of an Optax optimizer does not have its settings."""
    first, same, second = (OPTIMIZED[name](rate) for rate in (0.1, 0.1, 0.01))
    fp.simulate(first, federation(), CLASSIFIER, checkpoint=tmp_path, **SETTINGS)
    longer = SETTINGS | {"rounds": SETTINGS["rounds"] + 2}
    with pytest.raises(fp.SettingError, match=r"its methods is .*updates"):
        fp.simulate(second, federation(), CLASSIFIER, checkpoint=tmp_path, resume=True, **longer)
    fp.simulate(same, federation(), CLASSIFIER, checkpoint=tmp_path, resume=True, **longer)


@pytest.mark.parametrize("name", ["fedavg", "mr_mtl"])
def test_another_function_of_the_round_is_noticed_on_resume(name, tmp_path):
    """The functions have the same name, and some presets compute with their values."""
    more = {"lam": 0.5} if name == "mr_mtl" else {}
    first, second = (
        getattr(presets, name)(eta=lambda t, base=base: 0.1 * base**t, **more)
        for base in (0.9, 0.8)
    )
    fp.simulate(first, federation(), CLASSIFIER, checkpoint=tmp_path, **SETTINGS)
    longer = SETTINGS | {"rounds": SETTINGS["rounds"] + 2}
    with pytest.raises(fp.SettingError, match=r"in round 1"):
        fp.simulate(second, federation(), CLASSIFIER, checkpoint=tmp_path, resume=True, **longer)
    fp.simulate(first, federation(), CLASSIFIER, checkpoint=tmp_path, resume=True, **longer)
