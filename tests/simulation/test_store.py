"""A run with the parties' models in a file equals the run in memory, and needs little memory."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedplus as fp
from fedplus import baselines, presets
from fedplus.simulation import Fault, faults, setup
from fedplus.simulation.store import PartyStore
from small_federation import CLASSIFIER, federation

SIZES = tuple(range(20, 31))
PLUS = dataclasses.replace(presets.fedgeomed_plus(eta=0.1, sigma=1.0, delta=0.05), over="active")
SETTINGS = {"rounds": 9, "cohort": 3, "steps": 3, "batch_size": 8, "evaluate_every": 4}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Use pages of four rows: one round per page, and three pages per evaluation."""
    monkeypatch.setattr(setup, "PAGE_ROWS", 4)


def assert_same(one, other):
    np.testing.assert_allclose(one.models, other.models, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.w_global, other.w_global, rtol=1e-5, atol=1e-6)
    for name, values in other.evaluations.items():
        np.testing.assert_allclose(
            one.evaluations[name], values, rtol=1e-4, atol=1e-6, err_msg=name
        )
    for name in ("cohort", "dropped", "steps"):
        np.testing.assert_array_equal(one.figures[name], other.figures[name])


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"weights": "size"},
        {"faults": Fault((2, 3, 9), faults.not_finite())},
        {"path": (0.0, 0.5)},
    ],
    ids=["plain", "weights", "faults", "path"],
)
def test_a_run_with_a_store_is_the_run_in_memory(tmp_path, more):
    parties = federation(SIZES)
    stored = fp.simulate(PLUS, parties, CLASSIFIER, store=tmp_path, **SETTINGS, **more)
    assert_same(stored, fp.simulate(PLUS, parties, CLASSIFIER, **SETTINGS, **more))
    weight = stored.parameters(7)["weight"]
    np.testing.assert_array_equal(np.ravel(weight), stored.models[7, 3:])


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_store_also_holds_who_has_joined_and_the_optimizers_of_parties(tmp_path, optimizer):
    """The state of SGD is empty."""
    method = presets.fedper((("bias", 3), ("weight", 12)), eta=0.05, private=("bias",)).replace(
        optimizer=optimizer, keep_optimizer_state=True
    )
    parties = federation(SIZES)
    stored = fp.simulate(method, parties, CLASSIFIER, store=tmp_path, **SETTINGS)
    assert_same(stored, fp.simulate(method, parties, CLASSIFIER, **SETTINGS))


def test_a_run_resumes_from_a_checkpoint_after_later_rows_were_written(tmp_path):
    """The rounds after the last checkpoint are lost; the rows of the checkpoint are unchanged."""
    parties = federation(SIZES)
    store, folder = tmp_path / "store", tmp_path / "checkpoints"

    def run(rounds, **more):
        settings = SETTINGS | {"rounds": rounds} | more
        return fp.simulate(PLUS, parties, CLASSIFIER, store=store, **settings)

    run(4, checkpoint=folder)
    saved = {p: p.read_bytes() for p in folder.iterdir()}
    run(7, checkpoint=folder, resume=True)
    for path in folder.iterdir():
        path.unlink()
    for path, content in saved.items():
        path.write_bytes(content)
    resumed = run(9, checkpoint=folder, resume=True)
    assert_same(resumed, fp.simulate(PLUS, parties, CLASSIFIER, **SETTINGS))


def test_slots_of_a_snapshot_are_not_overwritten(tmp_path):
    rng = np.random.default_rng(0)
    store = PartyStore(tmp_path / "rows", 10, {"w": np.zeros(3), "c": np.ones(2, np.int32)})
    np.testing.assert_array_equal(store.read(np.array([4]))["c"], [[1, 1]])
    slots, expected = None, None
    mirror = np.zeros((10, 3))
    for i in range(200):
        parties = rng.permutation(10)[:3]
        rows = rng.normal(size=(3, 3))
        store.write(parties, {"w": rows, "c": np.full((3, 2), i)})
        mirror[parties] = rows
        np.testing.assert_array_equal(store.read(np.arange(10))["w"], mirror)
        if i % 7 == 0:
            slots, expected = store.snapshot(keep=2), mirror.copy()
    reopened = PartyStore(tmp_path / "rows", 10, {"w": np.zeros(3), "c": np.ones(2, np.int32)})
    reopened.restore(slots)
    np.testing.assert_array_equal(reopened.read(np.arange(10))["w"], expected)
    assert (tmp_path / "rows").stat().st_size <= 4 * 10 * (24 + 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"algorithm": presets.fedgeomed_plus(eta=0.1, sigma=1.0)},
            r'^store must be used with FedPlus\(\.\.\., over="active"\), e\.g\. presets\.fedavg.*, '
            r'got FedPlus\(\.\.\., over="all"\)\.',
        ),
        ({"algorithm": baselines.Scaffold(eta_l=0.1)}, r'over="active"\), .*, got Scaffold\.'),
        ({"objective": True}, "objective must be False with a store"),
        (
            {"algorithm": presets.fedavg_ft(eta=0.1)},
            "store must be used with fine_tune = 0, got a method with fine_tune = 10",
        ),
    ],
)
def test_settings_that_need_all_models_in_memory_are_rejected(tmp_path, change, message):
    arguments = {"algorithm": PLUS, "federation": federation(SIZES), "model": CLASSIFIER} | SETTINGS
    with pytest.raises(fp.SettingError, match=message):
        fp.simulate(**(arguments | change), store=tmp_path)


def test_the_models_of_an_earlier_run_are_not_overwritten(tmp_path):
    parties = federation(SIZES)
    fp.simulate(PLUS, parties, CLASSIFIER, store=tmp_path, **SETTINGS)
    before = (tmp_path / "parties.bin").read_bytes()
    with pytest.raises(fp.SettingError, match=r"store must be an empty folder, got .* earlier run"):
        fp.simulate(PLUS, parties, CLASSIFIER, store=tmp_path, **SETTINGS)
    assert (tmp_path / "parties.bin").read_bytes() == before


def test_a_hundred_thousand_parties_need_less_than_four_gigabytes(tmp_path):
    """All models together take 3.1 GB; a round uses a hundred of them."""
    script = Path(__file__).parent / "large_run.py"
    process = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) < 4 * 2**20  # kB
