"""Federations from arrays and rows, and their standardisation (``data/federation.py``)."""

import numpy as np
import pytest

import fedplus as fp
from fedplus.data import Federation

X, Y = np.zeros((40, 1)), np.zeros(40, int)


def test_inputs_are_standardised_by_the_training_samples_of_all_parties():
    rng = np.random.default_rng(0)
    parties = [(rng.normal(k, 1 + k, size=(50, 3)), rng.normal(size=50)) for k in range(3)]
    raw = Federation.from_arrays(parties, validation_share=0.2)
    federation = raw.standardise()
    assert np.allclose(federation.train.x.mean(0), 0, atol=1e-5)
    assert np.allclose(federation.train.x.std(0), 1, atol=1e-5)
    expected = (raw.test.x - raw.train.x.mean(0)) / raw.train.x.std(0)
    assert np.allclose(federation.test.x, expected, atol=1e-5)
    constant = Federation.from_arrays([(np.ones((9, 2)), np.ones(9))]).standardise()
    assert np.isfinite(constant.train.x).all()


def test_standardisation_handles_large_means_and_constant_columns():
    rng = np.random.default_rng(0)
    x = rng.normal(1000, 1, size=(300_000, 2)).astype(np.float32)
    x[:, 1] = 0.1
    federation = Federation.from_arrays([(x, np.zeros(len(x), int))]).standardise()
    assert abs(federation.train.x[:, 0].mean(dtype=float)) < 1e-2
    assert abs(federation.train.x[:, 0].std(dtype=float) - 1) < 1e-2
    assert np.abs(federation.train.x[:, 1]).max() < 1e-5


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ({"a": [0, 1, 999]}, "rows must be from 0 to 39"),
        ({"a": [-1, 1, 2]}, "rows must be from 0 to 39"),
        ({"a": [0, 1, 2], "b": [2, 3, 4]}, "each of one party only"),
        ({"a": [0, 0, 1]}, "each of one party only"),
        ({"a": np.ones(40, bool)}, "rows of party 'a' must be row numbers"),
        ({}, "parties must be at least one"),
    ],
)
def test_rows_must_exist_and_belong_to_one_party(rows, match):
    with pytest.raises(fp.SettingError, match=match):
        Federation.from_partition(X, Y, rows)
    federation = Federation.from_partition(X, Y, {"a": [0, 1, 2, 3]})
    assert federation.train.size[0] + federation.test.size[0] == 4


def test_labels_beyond_32_bits_are_rejected():
    with pytest.raises(fp.SettingError, match="of 32 bits"):
        Federation.from_arrays([(np.ones((5, 1)), np.arange(5) + 2**40)])
