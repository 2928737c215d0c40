"""Corruptions of parties' data (``data/corrupt.py``)."""

import numpy as np
import pytest

import fedplus as fp
from fedplus.data import Federation
from fedplus.data.corrupt import corrupt, flip, negate, noise, relabel, shuffle

RNG = np.random.default_rng(0)
CLEAN = Federation.from_arrays(
    [(RNG.normal(size=(200, 6)), RNG.integers(0, 5, 200)) for _ in range(4)],
    validation_share=0.2, test_share=0.3,
)  # fmt: skip
ALL = ("train", "validation", "test")


def parts(federation, k):
    return {name: getattr(federation, name).party(k) for name in ALL}


def test_corruptions_are_applied_in_order():
    federation = corrupt(CLEAN, [2], noise(0.5), negate, flip(5), seed=7)
    noisy = corrupt(CLEAN, [2], noise(0.5), seed=7)
    assert np.array_equal(federation.train.party(2)[0], -noisy.train.party(2)[0])
    assert np.array_equal(federation.train.party(2)[1], 4 - CLEAN.train.party(2)[1])


def test_only_the_named_splits_and_parties_change():
    federation = corrupt(CLEAN, ["1"], negate, shuffle)
    assert np.array_equal(federation.test.x, CLEAN.test.x)
    for k in (0, 2, 3):
        assert np.array_equal(federation.train.party(k)[0], CLEAN.train.party(k)[0])
        assert np.array_equal(federation.train.party(k)[1], CLEAN.train.party(k)[1])
    assert not np.array_equal(federation.validation.party(1)[0], CLEAN.validation.party(1)[0])


def test_noisy_classes_differ_by_party_and_are_the_same_in_all_its_splits():
    federation = corrupt(CLEAN, CLEAN.names, noise(1.0, "laplace", classes=2), splits=ALL)
    chosen = []
    for k in range(4):
        noisy = set()
        for name, (x, y) in parts(federation, k).items():
            changed = (x != parts(CLEAN, k)[name][0]).any(1)
            noisy |= set(y[changed].tolist())
            assert not changed[~np.isin(y, sorted(noisy))].any()
            assert changed[np.isin(y, sorted(noisy))].all()
        assert len(noisy) == 2
        chosen.append(tuple(sorted(noisy)))
    assert len(set(chosen)) > 1


@pytest.mark.parametrize(("law", "deviation"), [("normal", 2.0), ("laplace", 2.0 * 2**0.5)])
def test_noise_has_its_law_and_its_scale(law, deviation):
    x = np.zeros((2000, 50), dtype=np.float32)
    noisy, _ = noise(2.0, law)(x, np.zeros(2000, int), np.random.default_rng(0))
    assert abs(noisy.std() - deviation) < 0.02
    kurtosis = ((noisy / noisy.std()) ** 4).mean()
    assert abs(kurtosis - (3 if law == "normal" else 6)) < 0.3


def test_relabel_is_one_permutation_in_all_splits_of_a_party():
    federation = corrupt(CLEAN, [0, 1], relabel(5), splits=ALL)
    maps = []
    for k in (0, 1):
        pairs = {
            (int(a), int(b))
            for name in ALL
            for a, b in zip(parts(CLEAN, k)[name][1], parts(federation, k)[name][1], strict=True)
        }
        assert len(pairs) == 5
        assert len({b for _, b in pairs}) == 5
        maps.append(frozenset(pairs))
    assert maps[0] != maps[1]


def test_a_partys_noise_does_not_depend_on_who_else_is_corrupted():
    alone = corrupt(CLEAN, [3], noise(1.0), seed=5)
    among = corrupt(CLEAN, [0, 3, 1], noise(1.0), seed=5)
    assert np.array_equal(alone.train.party(3)[0], among.train.party(3)[0])


def test_a_party_named_twice_is_corrupted_once():
    federation = corrupt(CLEAN, [1, "1"], negate)
    assert np.array_equal(federation.train.party(1)[0], -CLEAN.train.party(1)[0])


WHOLE = CLEAN._replace(train=CLEAN.train._replace(x=np.ones_like(CLEAN.train.x, dtype=np.int32)))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: corrupt(CLEAN, [9], negate), "party must be a name, or a number from 0 to 3"),
        (lambda: corrupt(CLEAN, ["x"], negate), "party must be the name of one"),
        (lambda: corrupt(CLEAN, [0], negate, splits=("tests",)), "splits must be among train"),
        (lambda: corrupt(WHOLE, [0], negate, splits=("train",)), "inputs to negate must be real"),
        (
            lambda: corrupt(WHOLE, [0], noise(1.0), splits=("train",)),
            "inputs to noise must be real",
        ),
        (lambda: corrupt(CLEAN, [0], flip(2)), "labels to flip must be whole numbers below 2"),
        (
            lambda: corrupt(CLEAN, [0], relabel(2)),
            "labels to relabel must be whole numbers below 2",
        ),
        (lambda: noise(1.0, classes=0), "noise's classes must be a whole number"),
        (lambda: noise(-1.0), "noise's scale must be a finite number ≥ 0"),
        (lambda: noise(1.0, "cauchy"), "noise's law must be normal or laplace"),
    ],
)
def test_wrong_arguments_raise_a_setting_error(call, match):
    with pytest.raises(fp.SettingError, match=match):
        call()
