"""Parties' models in a file: the same run, in bounded memory."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedplus as fp
from fedplus import presets
from fedplus.simulation import Fault, faults, setup
from fedplus.simulation.store import PartyStore
from small_federation import CLASSIFIER, federation

SIZES = tuple(range(20, 31))
PLUS = dataclasses.replace(presets.fedgeomed_plus(eta=0.1, sigma=1.0, delta=0.05), over="active")
ASKED = {"rounds": 9, "cohort": 3, "steps": 3, "batch_size": 8, "evaluate_every": 4}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Four rows: a page holds one round, and an evaluation turns three pages."""
    monkeypatch.setattr(setup, "PAGE", 4)


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
def test_a_run_from_a_store_is_the_run_from_memory(tmp_path, more):
    parties = federation(SIZES)
    stored = fp.simulate(PLUS, parties, CLASSIFIER, store=tmp_path, **ASKED, **more)
    assert_same(stored, fp.simulate(PLUS, parties, CLASSIFIER, **ASKED, **more))
    weight = stored.parameters(7)["weight"]
    np.testing.assert_array_equal(np.ravel(weight), stored.models[7, 3:])


def test_it_goes_on_from_a_checkpoint_though_rows_were_written_since(tmp_path):
    """The rounds after the last checkpoint are lost; what it speaks of is as it was."""
    parties = federation(SIZES)
    store, folder = tmp_path / "store", tmp_path / "checkpoints"

    def run(rounds, **more):
        asked = ASKED | {"rounds": rounds} | more
        return fp.simulate(PLUS, parties, CLASSIFIER, store=store, **asked)

    run(4, checkpoint=folder)
    saved = {p: p.read_bytes() for p in folder.iterdir()}
    run(7, checkpoint=folder, resume=True)
    for path in folder.iterdir():
        path.unlink()
    for path, content in saved.items():
        path.write_bytes(content)
    further = run(9, checkpoint=folder, resume=True)
    assert_same(further, fp.simulate(PLUS, parties, CLASSIFIER, **ASKED))


def test_slots_that_a_checkpoint_speaks_of_are_not_written_over(tmp_path):
    rng = np.random.default_rng(0)
    store = PartyStore(tmp_path / "rows", 10, {"w": np.zeros(3), "c": np.ones(2, np.int32)})
    np.testing.assert_array_equal(store.read(np.array([4]))["c"], [[1, 1]])
    kept = None
    mirror = np.zeros((10, 3))
    for turn in range(200):
        who = rng.permutation(10)[:3]
        rows = rng.normal(size=(3, 3))
        store.write(who, {"w": rows, "c": np.full((3, 2), turn)})
        mirror[who] = rows
        np.testing.assert_array_equal(store.read(np.arange(10))["w"], mirror)
        if turn % 7 == 0:
            kept = store.keep(2), mirror.copy()
    again = PartyStore(tmp_path / "rows", 10, {"w": np.zeros(3), "c": np.ones(2, np.int32)})
    again.restore(kept[0])
    np.testing.assert_array_equal(again.read(np.arange(10))["w"], kept[1])
    assert (tmp_path / "rows").stat().st_size <= 4 * 10 * (24 + 8)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"algorithm": presets.fedgeomed_plus(eta=0.1, sigma=1.0)},
            "store must be used with a method",
        ),
        ({"objective": True}, "objective must be False with a store"),
    ],
)
def test_what_needs_all_models_at_once_is_refused(tmp_path, change, told):
    asked = {"algorithm": PLUS, "federation": federation(SIZES), "model": CLASSIFIER} | ASKED
    with pytest.raises(fp.SettingError, match=told):
        fp.simulate(**(asked | change), store=tmp_path)


def test_an_earlier_runs_models_are_not_written_over(tmp_path):
    parties = federation(SIZES)
    fp.simulate(PLUS, parties, CLASSIFIER, store=tmp_path, **ASKED)
    before = (tmp_path / "parties.bin").read_bytes()
    with pytest.raises(fp.SettingError, match=r"store must be an empty folder, got .* earlier run"):
        fp.simulate(PLUS, parties, CLASSIFIER, store=tmp_path, **ASKED)
    assert (tmp_path / "parties.bin").read_bytes() == before


def test_a_hundred_thousand_parties_in_under_four_gigabytes(tmp_path):
    """Models of 3.1 GB in all, of which a run sees a hundred a round."""
    script = Path(__file__).parent / "large_run.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 4 * 2**20  # kB
