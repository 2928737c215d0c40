"""``tune`` chooses settings on validation samples only."""

import numpy as np
import pytest

import fedplus as fp
from fedplus import baselines, presets
from small_federation import CLASSIFIER, federation

SETTINGS = {"rounds": 6, "steps": 4, "batch_size": 8}


def with_validation():
    """Return a small federation with validation samples."""
    base = federation(sizes=(40, 60, 35, 45, 50))
    splits = [base.train.party(k) for k in range(5)], [base.test.party(k) for k in range(5)]
    return fp.Federation.from_arrays(*splits, validation_share=0.3, name="small")


def test_every_trial_is_the_single_run_evaluated_on_validation_samples():
    data = with_validation()
    grid = {"eta": (0.01, 0.05, 0.1), "sigma": (0.2, 1.0), "delta": (0.1,)}
    tuned = fp.tune(presets.fedgeomed_plus, grid, data, CLASSIFIER, seeds=(0, 1), **SETTINGS)
    assert len(tuned.trials) == 6
    validated = data._replace(test=data.validation)
    for trial in tuned.trials:
        runs = [
            fp.simulate(
                presets.fedgeomed_plus(**trial.settings), validated, CLASSIFIER, seed=s, **SETTINGS
            )
            for s in (0, 1)
        ]
        means = [run.summary().mean for run in runs]
        assert trial.mean == pytest.approx(np.mean(means), abs=1e-6)
        assert trial.std == pytest.approx(np.std(means), abs=1e-6)
    assert tuned.score == tuned.trials[0].mean == max(trial.mean for trial in tuned.trials)
    assert tuned.method == presets.fedgeomed_plus(**tuned.settings)


def test_test_samples_are_not_used():
    data = with_validation()
    grid = {"eta": (0.001, 0.01, 0.1)}
    one = fp.tune(presets.fedavg, grid, data, CLASSIFIER, **SETTINGS)
    changed = data._replace(test=data.test._replace(x=data.test.x * 0, y=data.test.y * 0))
    other = fp.tune(presets.fedavg, grid, changed, CLASSIFIER, **SETTINGS)
    assert one.trials == other.trials


def test_a_diverging_candidate_is_reported_and_never_chosen():
    data = with_validation()
    scaled = data._replace(train=data.train._replace(x=data.train.x * 1e15))
    grid = {"eta": (1e-33, 1e25)}
    tuned = fp.tune(presets.fedavg, grid, scaled, CLASSIFIER, **SETTINGS)
    assert [trial.diverged for trial in tuned.trials] == [False, True]
    assert tuned.settings == {"eta": 1e-33}
    assert "diverged" in str(tuned)
    with pytest.raises(fp.SettingError, match="candidates that all diverged"):
        fp.tune(presets.fedavg, {"eta": (1e25,)}, scaled, CLASSIFIER, **SETTINGS)


def test_settings_that_need_different_programs_can_be_tuned():
    grid = {"alpha": (0.05,), "beta": (0.05, 0.1), "variant": ("fo", "hf")}
    tuned = fp.tune(baselines.PerFedAvg, grid, with_validation(), CLASSIFIER, **SETTINGS)
    assert {trial.settings["variant"] for trial in tuned.trials} == {"fo", "hf"}
    assert len(tuned.trials) == 4


def test_random_search_draws_from_the_grid_by_its_seed():
    grid = {"eta": (0.01, 0.02, 0.05, 0.1), "lam": (0.0, 0.1, 1.0)}
    runs = [
        fp.tune(baselines.Ditto, grid, with_validation(), CLASSIFIER, samples=4, seed=s, **SETTINGS)
        for s in (0, 0, 1)
    ]
    tried = [{tuple(t.settings.items()) for t in run.trials} for run in runs]
    assert len(tried[0]) == 4
    assert tried[0] == tried[1] != tried[2]


def test_a_value_at_the_edge_of_the_grid_is_reported():
    tuned = fp.tune(
        presets.fedavg, {"eta": (1e-6, 1e-5, 0.1)}, with_validation(), CLASSIFIER, **SETTINGS
    )
    assert tuned.at_edge == ("eta",)
    assert "at the edge" in str(tuned)


def test_fedfomo_is_evaluated_on_validation_samples_that_it_does_not_use():
    grid = {"eta": (0.1,), "m": (2,)}
    tuned = fp.tune(baselines.FedFomo, grid, with_validation(), CLASSIFIER, **SETTINGS)
    assert tuned.score > 0.5


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"grid": {}}, "grid must be values to try"),
        ({"grid": {"eta": 0.1}}, r"grid\['eta'\] must be a list of values"),
        ({"grid": {"eta": (0.1,), "mu": (1,)}}, "grid must be settings of the method: eta, got mu"),
        ({"grid": {"eta": (0.1,)}, "seeds": ()}, "seeds must be at least one"),
        ({"grid": {"eta": ()}}, r"grid\['eta'\] must be a list of values"),
        ({"samples": 0, "grid": {"eta": (0.1,)}}, "samples must be a whole number"),
        ({"federation": federation(), "grid": {"eta": (0.1,)}}, "one with validation samples"),
    ],
)
def test_invalid_arguments_are_rejected(change, match):
    more = {"federation": with_validation(), **change}
    grid, data = more.pop("grid"), more.pop("federation")
    with pytest.raises(fp.SettingError, match=match):
        fp.tune(presets.fedavg, grid, data, CLASSIFIER, **SETTINGS, **more)
