"""``tune`` chooses on validation samples alone, the same way for every method."""

import numpy as np
import pytest

import fedplus as fp
from fedplus import baselines, presets
from small_federation import CLASSIFIER, federation

ASKED = {"rounds": 6, "steps": 4, "batch_size": 8}


def held(**more):
    made = federation(sizes=(40, 60, 35, 45, 50), **more)
    parties = [made.train.party(k) for k in range(5)], [made.test.party(k) for k in range(5)]
    return fp.Federation.from_arrays(*parties, validation_share=0.3, name="small")


def test_every_trial_is_the_run_by_itself_judged_on_validation_samples():
    data = held()
    grid = {"eta": (0.01, 0.05, 0.1), "sigma": (0.2, 1.0), "delta": (0.1,)}
    tuned = fp.tune(presets.fedgeomed_plus, grid, data, CLASSIFIER, seeds=(0, 1), **ASKED)
    assert len(tuned.trials) == 6
    judged = data._replace(test=data.validation)
    for trial in tuned.trials:
        runs = [
            fp.simulate(
                presets.fedgeomed_plus(**trial.settings), judged, CLASSIFIER, seed=s, **ASKED
            )
            for s in (0, 1)
        ]
        means = [run.summary().mean for run in runs]
        assert trial.mean == pytest.approx(np.mean(means), abs=1e-6)
        assert trial.std == pytest.approx(np.std(means), abs=1e-6)
    assert tuned.score == tuned.trials[0].mean == max(trial.mean for trial in tuned.trials)
    assert tuned.method == presets.fedgeomed_plus(**tuned.settings)


def test_test_samples_play_no_part():
    data = held()
    grid = {"eta": (0.001, 0.01, 0.1)}
    one = fp.tune(presets.fedavg, grid, data, CLASSIFIER, **ASKED)
    spoilt = data._replace(test=data.test._replace(x=data.test.x * 0, y=data.test.y * 0))
    other = fp.tune(presets.fedavg, grid, spoilt, CLASSIFIER, **ASKED)
    assert one.trials == other.trials


def test_a_diverging_candidate_is_told_and_never_chosen():
    data = held()
    wild = data._replace(train=data.train._replace(x=data.train.x * 1e15))
    grid = {"eta": (1e-33, 1e25)}
    tuned = fp.tune(presets.fedavg, grid, wild, CLASSIFIER, **ASKED)
    assert [trial.diverged for trial in tuned.trials] == [False, True]
    assert tuned.settings == {"eta": 1e-33}
    assert "diverged" in str(tuned)
    with pytest.raises(fp.SettingError, match="candidates that all diverged"):
        fp.tune(presets.fedavg, {"eta": (1e25,)}, wild, CLASSIFIER, **ASKED)


def test_settings_that_shape_the_program_are_tried_too():
    grid = {"alpha": (0.05,), "beta": (0.05, 0.1), "variant": ("fo", "hf")}
    tuned = fp.tune(baselines.PerFedAvg, grid, held(), CLASSIFIER, **ASKED)
    assert {trial.settings["variant"] for trial in tuned.trials} == {"fo", "hf"}
    assert len(tuned.trials) == 4


def test_random_search_is_a_part_of_the_grid_by_its_seed():
    grid = {"eta": (0.01, 0.02, 0.05, 0.1), "lam": (0.0, 0.1, 1.0)}
    runs = [
        fp.tune(baselines.Ditto, grid, held(), CLASSIFIER, samples=4, seed=s, **ASKED)
        for s in (0, 0, 1)
    ]
    tried = [{tuple(t.settings.items()) for t in run.trials} for run in runs]
    assert len(tried[0]) == 4
    assert tried[0] == tried[1] != tried[2]


def test_the_edge_of_the_grid_is_told():
    tuned = fp.tune(presets.fedavg, {"eta": (1e-6, 1e-5, 0.1)}, held(), CLASSIFIER, **ASKED)
    assert tuned.at_edge == ("eta",)
    assert "at the edge" in str(tuned)


def test_fedfomo_is_judged_on_validation_samples_it_does_not_use():
    grid = {"eta": (0.1,), "m": (2,)}
    tuned = fp.tune(baselines.FedFomo, grid, held(), CLASSIFIER, **ASKED)
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
def test_bad_input_is_one_line(change, match):
    asked = {"federation": held(), **change}
    with pytest.raises(fp.SettingError, match=match):
        fp.tune(presets.fedavg, asked.pop("grid"), asked.pop("federation"), CLASSIFIER,
                **ASKED, **asked)  # fmt: skip
