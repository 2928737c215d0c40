"""The list of methods: each can be made by name and has a description."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fedplus as fp
from fedplus.algorithm import AbstractAlgorithm
from fedplus.cli.methods import describe_method
from fedplus.methods import COMMON, METHODS, lookup_method
from fedplus.server_optimizer import MomentumServer
from fedplus.simulation.evaluated_models import is_adapted

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
    "layers",
    "fedavg-ft",
    "fedavg-decay",
    "local-fixed-point",
    "fedavgm",
    "fedadam",
    "fedyogi",
    "fedadagrad",
    "fedper",
    "fedrep",
    "lg-fedavg",
    "fedbabu",
    "mr-mtl",
    "localupdate",
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
    "eta_c": 0.1, "s": 1.0, "gamma": 0.1, "parts": {"*": fp.L2(0.1)},
    "layout": (("body", 1), ("head/w", 2)),
}  # fmt: skip


def methods_command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "fedplus", "methods", *arguments], capture_output=True, text=True
    )


def build(name):
    method = METHODS[name]
    required = [k for k, v in method.settings.items() if v is inspect.Parameter.empty]
    needed = NEEDED | ({"parts": {"*": fp.Layer(lam=0.5)}} if name == "layers" else {})
    return method(**{k: needed[k] for k in required})


def test_all_methods_have_the_names_that_people_use():
    assert list(METHODS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_method_can_be_built_and_evaluates_the_model_that_it_states(name):
    method = build(name)
    assert isinstance(method, AbstractAlgorithm)
    assert is_adapted(method) == (METHODS[name].used_model == "adapted")
    if METHODS[name].used_model == "global":
        state = method.init([0.0, 1.0, 2.0], 4)
        assert (method.models(state) == method.w_global(state)).all()


@pytest.mark.parametrize("name", [name for name in NAMES if METHODS[name].is_preset])
def test_every_preset_takes_the_common_settings_of_algorithm_1(name):
    """Each has its default in the list, a meaning, and an effect on the method."""
    other = {
        "aggregate": fp.CoordinateMedian(), "join": "first", "optimizer": "adam",
        "keep_optimizer_state": True, "fine_tune": 3, "fine_tune_eta": 0.3,
        "server_optimizer": MomentumServer(),
    }  # fmt: skip
    assert set(other) == set(COMMON)
    if name == "local":  # Its parties send nothing, so there is nothing to join or to aggregate.
        other = {k: other[k] for k in ("optimizer", "keep_optimizer_state")}
    assert set(other) <= set(METHODS[name].settings)
    assert all(METHODS[name].meanings[setting] for setting in METHODS[name].settings)
    plain = build(name)
    required = {k: v for k, v in NEEDED.items() if k in METHODS[name].settings}
    required |= {"parts": {"*": fp.Layer(lam=0.5)}} if name == "layers" else {}
    required = {
        k: v for k, v in required.items() if METHODS[name].settings[k] is inspect.Parameter.empty
    }
    for setting, value in other.items():
        method = METHODS[name](**required, **{setting: value})
        owner = method if hasattr(method, setting) else method.local
        assert getattr(owner, setting) == value
        assert method == plain.replace(**{setting: value})


def test_an_unknown_name_or_setting_is_rejected_with_the_known_ones():
    with pytest.raises(fp.SettingError, match=r"got 'dito'\. Did you mean ditto\?"):
        lookup_method("dito")
    with pytest.raises(
        fp.SettingError, match="setting of ditto must be one of: eta, lam, aggregate"
    ):
        lookup_method("ditto")(eta=0.1, mu=1.0)
    with pytest.raises(
        fp.SettingError,
        match=r"^settings of ditto must include lam, got only eta\. E\.g\. lam=0\.1\.$",
    ):
        lookup_method("ditto")(eta=0.1)
    with pytest.raises(
        fp.SettingError,
        match=r"hybrid must include parts, layout and sigma, got only eta\.$",
    ):
        lookup_method("hybrid")(eta=0.1)


def test_the_command_lists_methods_and_describes_one():
    records = json.loads(methods_command("--json").stdout)
    assert [record["name"] for record in records] == NAMES
    apfl = next(record for record in records if record["name"] == "apfl")
    assert apfl["settings"]["alpha"].items() >= {"required": False, "default": 0.5}.items()
    assert apfl["settings"]["eta"]["required"]
    assert all(record["source"] for record in records)
    table = methods_command().stdout
    assert all(name in table for name in NAMES)
    assert "1 model between rounds" in methods_command("ditto").stdout
    assert "Karimireddy et al., SCAFFOLD" in methods_command("scaffold").stdout
    wrong = methods_command("scafold")
    assert wrong.returncode == 2
    assert "Did you mean scaffold?" in wrong.stderr


def test_a_required_setting_without_a_value_for_the_command_line_is_described():
    def make(*, strength: float):
        """Make a method.

        Args:
            strength: Strength > 0.
        """

    other = METHODS["fedavg"]._replace(name="other", make=make)
    assert "strength (required)" in describe_method(other, 80)


@pytest.mark.parametrize("name", NAMES)
def test_the_docs_have_a_true_row_for_every_method(name):
    method = METHODS[name]
    model = f"{method.used_model} model"
    cells = (f"`{name}`", model, method.keeps, method.sends, method.gradients, method.source)
    docs = Path(__file__).parents[1] / "docs/methods.md"
    assert f"| {' | '.join(cells)} |" in docs.read_text(encoding="utf-8")
