"""Invalid arguments and data raise a one-line error before any training."""

import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus import models, presets
from fedplus.models import REGRESSION, Model
from small_federation import CLASSIFIER, federation

LAYOUT = (("bias", 3), ("weight", 12))
METHOD = presets.fedavg(eta=0.1)


def assert_rejected(call, match):
    """Assert that the call raises a one-line ``SettingError`` that matches."""
    with pytest.raises(fp.SettingError, match=match) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rounds": 0}, "rounds must be a whole number ≥ 1, got 0"),
        ({"rounds": 2.5}, "rounds must be a whole number"),
        ({"evaluate_every": -1}, "evaluate_every must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number ≥ 1"),
        ({"steps": None}, "steps or epochs must be given, and only one of them, got neither"),
        ({"epochs": 1}, "steps or epochs must be given, and only one of them, got both"),
        ({"steps": -1}, "steps must be a finite number > 0"),
        ({"steps": 2.5}, "steps must be whole numbers"),
        ({"steps": [1, 2]}, r"steps must be one number, or \(5,\)"),
        ({"cohort": 9}, "cohort must be from 1 to 5, got 9"),
        ({"weights": [1, 2]}, r"weights must be \(5,\), one per party"),
        ({"weights": "samples"}, 'weights must be "size"'),
        ({"each": "loop"}, 'each must be "auto", "vmap" or "map"'),
        ({"resume": True}, "checkpoint must be the folder to resume from"),
        ({"checkpoint_every": 5}, "checkpoint must be a folder"),
        ({"faults": ["nan"]}, "faults must be Fault"),
        (
            {"algorithm": presets.fedrep(LAYOUT, eta=0.1, private=("bias",), head_steps=2)},
            "steps must be more than 2, the steps of the layers that are trained first, got 2 per",
        ),
    ],
)
def test_invalid_settings_are_rejected(change, match):
    settings = {"algorithm": METHOD, "rounds": 2, "steps": 2} | change
    assert_rejected(
        lambda: fp.simulate(federation=federation(), model=CLASSIFIER, **settings), match
    )


def simulation(data, model=CLASSIFIER):
    """Return a function that simulates one round on this data."""
    return lambda: fp.simulate(METHOD, fp.Federation.from_arrays(data), model, rounds=1, steps=1)


X, Y = np.ones((10, 4)), np.arange(10) % 3


def test_labels_out_of_range_are_rejected():
    wrong = Y.copy()
    wrong[:] = 3
    assert_rejected(
        simulation([(X, Y), (X, wrong)]),
        "labels must be whole numbers from 0 to 2.* got 3 at party '1'",
    )
    assert_rejected(simulation([(X, Y - 1)]), "labels must be whole numbers from 0 to 2")
    assert_rejected(simulation([(X, Y + 0.5)]), "labels must be whole numbers")


def test_a_model_that_does_not_fit_the_data_is_rejected():
    assert_rejected(
        simulation([(np.ones((10, 5)), Y)]), r"model 'classifier' must take inputs of shape \(5,\)"
    )
    assert_rejected(
        simulation([(np.ones((10, 5)), Y)], models.logistic(4, 3)), "logistic's input must be"
    )
    two = Model(lambda key: {"w": jnp.zeros((4, 2))}, lambda p, x: x @ p["w"], REGRESSION, "two")
    assert_rejected(
        simulation([(X, Y.astype(float))], two), r"model 'two' must be one with outputs like the"
    )
    one = Model(lambda key: {"w": jnp.zeros(4)}, lambda p, x: jnp.sum(x @ p["w"]), name="sum")
    assert_rejected(simulation([(X, Y)], one), "model 'sum' must be a function to outputs")


def test_a_party_without_samples_is_rejected():
    empty = (np.ones((0, 4)), np.ones(0, int))
    assert_rejected(
        simulation([(X, Y), empty]),
        "train of party '1' must be at least one sample, got no samples",
    )
    assert_rejected(
        simulation([(X, Y), (X[:1], Y[:1])]), "samples of party '1' must be at least 3 so that"
    )


def test_arguments_of_the_wrong_types_are_rejected():
    assert_rejected(
        lambda: fp.simulate("fedavg", federation(), CLASSIFIER, rounds=1, steps=1),
        "algorithm must be",
    )
    assert_rejected(
        lambda: fp.simulate(METHOD, [(X, Y)], CLASSIFIER, rounds=1, steps=1), "federation must be"
    )
    assert_rejected(
        lambda: fp.simulate(METHOD, federation(), None, rounds=1, steps=1), "model must be a Model"
    )


def test_invalid_data_is_rejected():
    assert_rejected(simulation([]), "train must be .* at least one party")
    assert_rejected(simulation([(X, Y[:5])]), "train of party '0' must be one label per sample")
    assert_rejected(
        simulation([(X, Y), (np.ones((10, 3)), Y)]), "train of party '1' must be of the same shapes"
    )
    assert_rejected(
        simulation([(np.full((10, 4), np.nan), Y)]), "train of party '0' must be finite"
    )
    assert_rejected(
        lambda: fp.Federation.from_arrays([(X, Y), (X, Y)], names=["a", "a"]),
        "names must be 2 different names",
    )
    assert_rejected(
        lambda: fp.Federation.from_arrays([(X, Y)], test_share=1.5),
        "test_share must be below 1",
    )


def test_methods_of_different_kinds_in_one_sweep_are_rejected():
    both = [presets.fedavg(eta=0.1), presets.fedavg_plus(eta=0.1, sigma=1.0)]
    assert_rejected(
        lambda: fp.sweep(both, federation(), CLASSIFIER, rounds=1, steps=1),
        "must differ in numbers only",
    )
