"""The list of methods: each can be made by name, and says what it is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fedplus as fp
from fedplus.algorithm import AbstractAlgorithm
from fedplus.baselines.base import AbstractLocalAdaptation
from fedplus.methods import METHODS, lookup_method

NAMES = [
    "local",
    "fedavg",
    "rfa",
    "comed",
    "fedprox",
    "fedavg+",
    "fedgeomed+",
    "fedcomed+",
    "hybrid",
    "scaffold",
    "pfedme",
    "perfedavg",
    "apfl",
    "ditto",
    "l2gd",
    "hypcluster",
    "mapper",
    "fedfomo",
    "fedsplit",
]
NEEDED = {
    "eta": 0.1, "sigma": 0.5, "eta_l": 0.1, "lam": 0.5, "eta_inner": 0.1, "alpha": 0.1, "beta": 0.1,
    "eta_c": 0.1, "s": 1.0, "parts": {"*": fp.L2(0.1)}, "layout": (("w", 3),),
}  # fmt: skip


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "fedplus", "methods", *arguments], capture_output=True, text=True
    )


def made(name):
    import inspect

    one = METHODS[name]
    return one(**{k: NEEDED[k] for k, v in one.settings.items() if v is inspect.Parameter.empty})


def test_all_are_there_by_the_names_people_say():
    assert list(METHODS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_made_and_is_judged_as_it_says(name):
    one = made(name)
    assert isinstance(one, AbstractAlgorithm)
    assert isinstance(one, AbstractLocalAdaptation) == (METHODS[name].judged == "adapted")
    if METHODS[name].judged == "global":
        state = one.init([0.0, 1.0, 2.0], 4)
        assert (one.models(state) == one.w_global(state)).all()


def test_a_wrong_name_or_setting_says_what_there_is():
    with pytest.raises(fp.SettingError, match=r"got 'dito'\. Did you mean ditto\?"):
        lookup_method("dito")
    with pytest.raises(
        fp.SettingError, match="setting of ditto must be one of: eta, lam, aggregate"
    ):
        lookup_method("ditto")(eta=0.1, mu=1.0)
    with pytest.raises(fp.SettingError, match="settings of ditto must be given with lam, got eta"):
        lookup_method("ditto")(eta=0.1)


def test_the_command_lists_settings_defaults_and_sources():
    listed = json.loads(run("--json").stdout)
    assert [one["name"] for one in listed] == NAMES
    apfl = next(one for one in listed if one["name"] == "apfl")
    assert apfl["settings"]["alpha"] == {"required": False, "default": 0.5}
    assert apfl["settings"]["eta"]["required"]
    assert all(one["source"] for one in listed)
    shown = " ".join(run().stdout.split())
    assert all(name in shown for name in NAMES)
    assert "Karimireddy et al., SCAFFOLD" in shown
    assert "1 model between rounds" in run("ditto").stdout
    assert "Karimireddy" in run("scaffold").stdout
    wrong = run("scafold")
    assert wrong.returncode == 2
    assert "Did you mean scaffold?" in wrong.stderr


@pytest.mark.parametrize("name", NAMES)
def test_its_row_in_the_docs_is_true(name):
    one = METHODS[name]
    told = (f"`{name}`", f"{one.judged} model", one.keeps, one.sends, one.gradients, one.source)
    row = f"| {' | '.join(told)} |"
    docs = Path(__file__).parents[1] / "docs/methods.md"
    assert row in docs.read_text(encoding="utf-8")
