"""Grids of several studies: alike for every method, by name or by label."""

import pytest

from fedplus.paper import attacks, layers, silos, tuning
from fedplus.paper.specs import names, spec

STUDIES = {
    silos.BY: names(silos.PREFIX), attacks.BY: [attacks.NAME], layers.BY: names(layers.PREFIX),
}  # fmt: skip


@pytest.mark.parametrize("by", STUDIES)
def test_every_method_has_as_many_candidates(by):
    budget = tuning.rules(by)["budget"]["candidates"]
    for name in STUDIES[by]:
        one = spec(name)
        assert {tuning.key_of(method) for method in one.methods} == set(tuning.rules(by)["grid"])
        for method in one.methods:
            key, count = tuning.key_of(method), 1
            for values in tuning.grid_of(key, method.settings, by).values():
                assert all(values.count(value) == 1 for value in values)
                count *= len(values)
            assert count >= tuning.candidates_of(key, by) >= budget
            if key != "hybrid":
                assert tuning.candidates_of(key, by) == budget


def test_methods_of_one_name_are_told_apart_by_their_labels():
    keys = [tuning.key_of(method) for method in spec("attacks").methods]
    assert len(set(keys)) == len(keys)
    assert {"ditto", "ditto-geometric-median"} <= set(keys)


def test_chosen_settings_go_to_the_method_with_that_label():
    chosen = {"ditto": {"lam": 0.5}, "ditto-geometric-median": {"lam": 2.0}}
    plain, robust = tuning.with_chosen(spec("attacks"), chosen, attacks.BY).methods
    assert (plain.settings["lam"], robust.settings["lam"]) == (0.5, 2.0)
    assert robust.settings["aggregate"] == {"name": "geometric-median"}


def test_settings_are_chosen_for_the_length_that_is_trained():
    assert tuning.rounds_of(spec("attacks"), attacks.BY) == 60
    assert tuning.rounds_of(spec("table2-mnist-robust-n10")) == 100
