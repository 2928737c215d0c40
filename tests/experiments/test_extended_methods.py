"""Schedules, settings by layer, private layers and optimizers in TOML files and in the shell.

A run folder has the scores of the method that Python makes from the same settings.
"""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

import fedplus as fp
from command import fedplus
from fedplus.experiments.run_folder import find_run_folders
from fedplus.models import ravel
from fedplus.schedules import Cosine, Linear, WarmUp
from fedplus.server_optimizer import AdaptiveServer

DOCS = Path(__file__).parents[2] / "docs" / "command-line.md"
SMALL = {"rounds": 4, "steps": 2, "parties": 4, "outliers": 0.25}
MLP, LOGISTIC = fp.models.mlp(64, 10, hidden=(16,)), fp.models.logistic(64, 10)
LAYOUT = ravel(MLP.init(jax.random.key(0))).layout
PRIVATE_HEAD = {
    "head/*": fp.Layer(private=True),
    "*": fp.Layer(fp.L2(Linear(0.6, 0.3, rounds=4)), sigma=0.5),
}


def run_command(target, folder, *more, **settings):
    """Run the command with few rounds and return its runs by label."""
    given = [f"{key}={value}" for key, value in (SMALL | settings).items()]
    options = [word for text in given for word in ("--set", text)]
    fedplus("run", target, "--no-local", "--out", folder, *more, *options)
    return {run.status["label"]: run for run in find_run_folders([folder])}


def assert_equals_simulation(run, method, model):
    data = fp.data.load("digits-robust", seed=0, parties=4, outliers=0.25)
    expected = fp.simulate(method, data, model, rounds=4, steps=2, batch_size=20).evaluations
    np.testing.assert_allclose(
        run.lines[-1]["personal_loss"], expected["personal_loss"][-1], rtol=1e-4
    )


@pytest.mark.slow
def test_the_sample_in_the_docs_trains_the_methods_that_it_describes(tmp_path):
    """Its schedules are shortened with its rounds."""
    samples = re.findall(r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (sample,) = (text for text in samples if "schedule" in text)
    sample = sample.replace("rounds = 150", "rounds = 4").replace("rounds = 40", "rounds = 2")
    (tmp_path / "sample.toml").write_text(sample, encoding="utf-8")
    runs = run_command(tmp_path / "sample.toml", tmp_path / "runs")
    scheduled = fp.presets.fedgeomed_plus(
        eta=Cosine(0.05, 0.005, rounds=4), sigma=0.5, lam=WarmUp(rounds=2)
    )
    expected = {
        "FedGeoMed+, scheduled": scheduled.replace(optimizer="momentum"),
        "Fed+, private head": fp.Layers(PRIVATE_HEAD, LAYOUT).method(eta=0.02),
        "FedCoMed+, server's Adam": fp.presets.fedcomed_plus(eta=0.02, sigma=0.5).replace(
            server_optimizer=AdaptiveServer("adam", 0.01)
        ),
        "Ditto, Adam": fp.baselines.Ditto(eta=0.002, lam=0.5, optimizer="adam"),
    }
    assert set(runs) == set(expected)
    for label, method in expected.items():
        assert_equals_simulation(runs[label], method, MLP)


IN_THE_SHELL = {
    "schedule": (
        "fedgeomed+", {"sigma": 0.5, "lam": '{schedule="warm-up", rounds=2}'},
        fp.presets.fedgeomed_plus(eta=0.02, sigma=0.5, lam=WarmUp(rounds=2)),
    ),
    "Adam": (
        "fedgeomed+", {"eta": 0.002, "sigma": 5.0, "optimizer": "adam"},
        fp.presets.fedgeomed_plus(eta=0.002, sigma=5.0).replace(optimizer="adam"),
    ),
    "baseline": (
        "apfl",
        {"eta": '{schedule="cosine", first=0.05, last=0, rounds=3}', "optimizer": "momentum"},
        fp.baselines.APFL(eta=Cosine(0.05, 0.0, rounds=3), optimizer="momentum"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_THE_SHELL)
def test_schedules_and_optimizers_are_set_in_the_shell(name, tmp_path):
    method, settings, expected = IN_THE_SHELL[name]
    (run,) = run_command("digits-robust", tmp_path / "run", "--method", method, **settings).values()
    assert_equals_simulation(run, expected, LOGISTIC)


@pytest.mark.slow
def test_private_layers_are_set_in_the_shell(tmp_path):
    parts = '{"head/*" = {private = true}, "*" = {psi = "l2", delta = 0.3, sigma = 0.5}}'
    settings = {"parts": parts, "eta": 0.02, "model.name": "mlp", "model.hidden": "[16]"}
    (run,) = run_command(
        "digits-robust", tmp_path / "run", "--method", "layers", **settings
    ).values()
    layers = PRIVATE_HEAD | {"*": fp.Layer(fp.L2(0.3), sigma=0.5)}
    assert_equals_simulation(run, fp.Layers(layers, LAYOUT).method(eta=0.02), MLP)
