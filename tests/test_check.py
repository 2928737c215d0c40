"""Error messages for unknown names: which similar name they suggest."""

import pytest

from fedplus.check import SettingError, lookup, suggest
from fedplus.methods import METHODS


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("fedavgplus", "fedavg+"),
        ("fedavg plus", "fedavg+"),
        ("FedAvg-Plus", "fedavg+"),
        ("FedAvg+", "fedavg+"),
        ("FedGeoMed+", "fedgeomed+"),
        ("fedgeomed-plus", "fedgeomed+"),
        ("fedcomed_plus", "fedcomed+"),
        ("FedAvg", "fedavg"),
        ("fed_prox", "fedprox"),
        ("fedagv", "fedavg"),
        ("per-fedavg", "perfedavg"),
        ("scafold", "scaffold"),
    ],
)
def test_an_unknown_method_is_answered_with_the_method_that_is_meant(typed, meant):
    with pytest.raises(SettingError) as error:
        lookup(typed, METHODS, "method")
    expected = f"method must be one that fedplus knows, got {typed!r}. Did you mean {meant}?"
    assert str(error.value) == expected


def test_a_name_that_resembles_nothing_is_answered_with_all_names():
    with pytest.raises(SettingError, match=r"got 'zzz'\. Known: apple, pear\."):
        lookup("zzz", {"apple": 1, "pear": 2}, "fruit")


@pytest.mark.parametrize("name", METHODS)
def test_the_typed_name_itself_is_never_suggested(name):
    assert suggest(name, [name]) == ""
    assert f"Did you mean {name}?" != suggest(name, METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_known_name_is_found(name):
    assert lookup(name, METHODS, "method") is METHODS[name]


def test_a_name_that_differs_in_spelling_only_is_preferred_to_a_longer_match():
    assert suggest("batch size", ["batch_sizes", "batch_size"]) == "Did you mean batch_size?"
