"""Python and the command line fill in the same values."""

import inspect

import pytest

from command import fedplus
from fedplus.data import SETS
from fedplus.experiments import defaults
from fedplus.experiments.build import PSIS
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.methods import METHODS


def python_defaults(name):
    """Return the settings of a method that have a default in Python, as TOML would write them.

    Settings that all presets share are left out, because they are filled in only if they are given.
    """
    return {
        setting: list(value) if isinstance(value, tuple) else value
        for setting, value in METHODS[name].own_settings.items()
        if value is not inspect.Parameter.empty and value is not None
    }


@pytest.mark.parametrize("name", METHODS)
def test_the_command_line_fills_in_the_defaults_of_python(name, tmp_path):
    """This holds for every method, data set and setting that has a default in Python."""
    python = python_defaults(name)
    file = tmp_path / "own.toml"
    file.write_text(f'data = {{ folder = "hospitals" }}\nmethods = [{{ name = "{name}" }}]\n')
    for spec, _ in (
        spec_from_command(str(file)),
        *(spec_from_command(data, [name]) for data in SETS),
    ):
        settings = spec.methods[0].settings
        case = f"{name} on {spec.data.name or 'own files'}"
        assert {s: settings.get(s) for s in python} == python, case


def test_the_hybrid_starts_with_the_threshold_of_the_preset_of_its_psi():
    """``parts`` has no default in Python; each ψ in it takes the δ of the preset that uses it."""
    spec, _ = spec_from_command("digits-robust", ["hybrid"])
    preset_of = {"quadratic": "fedavg+", "l2": "fedgeomed+", "l1": "fedcomed+"}
    for part in spec.methods[0].settings["parts"].values():
        assert part["psi"] in PSIS
        assert part["delta"] == METHODS[preset_of[part["psi"]]].settings["delta"]


def test_settings_tuned_for_a_data_set_are_shown(tmp_path):
    """The card, the command's output and the run's own file all show them."""
    (data, tuned), *_ = defaults.TUNED.items()
    ((name, settings),) = tuned.items()
    ((setting, value),) = settings.items()
    description = f"{defaults.LABELS[name]}: {setting} = {value:g}"
    assert description in " ".join(fedplus("data", "card", data)[0].split())
    run = ["run", data, "--method", name, "--rounds", "1", "--no-local", "--out"]
    assert description in fedplus(*run, tmp_path / "filled-in")[0]
    assert f"{setting} = {value}" in (tmp_path / "filled-in" / "spec.toml").read_text()
    given = fedplus(*run, tmp_path / "given", "--set", f"{setting}={value / 2}")[0]
    assert f"{defaults.LABELS[name]}: {setting}" not in given
