"""Test and validation samples, and small parties (``data/holdout.py``)."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import fedplus as fp
from fedplus.data import Federation, partition
from fedplus.data.holdout import stratified_sample

LABELS = np.repeat(np.arange(10), np.arange(100, 200, 10))


@given(
    seed=st.integers(0, 10_000), share=st.floats(0.01, 0.99),
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(lambda c: sum(c) >= 2),
)  # fmt: skip
def test_the_sample_is_stratified_to_within_one_row(seed, share, counts):
    y = np.repeat(np.arange(len(counts)), counts)
    rows = np.random.default_rng(seed).permutation(len(y))
    kept, set_aside = stratified_sample(rows, y, share, np.random.default_rng(seed))
    assert np.array_equal(np.sort(np.concatenate([kept, set_aside])), np.arange(len(y)))
    assert len(set_aside) == min(max(1, round(share * len(y))), len(y) - 1)
    expected = np.array(counts) * len(set_aside) / len(y)
    actual = np.bincount(y[set_aside], minlength=len(counts))
    assert (np.abs(actual - expected) < 1 + 1e-9).all()


def build_federation(**split):
    x = np.arange(len(LABELS), dtype=float)[:, None]
    return Federation.from_partition(x, LABELS, partition.iid(6), seed=3, **split)


def test_the_test_samples_do_not_depend_on_validation():
    """Therefore settings that are chosen on validation samples do not depend on test samples."""
    without, within = build_federation(), build_federation(validation_share=0.25)
    assert np.array_equal(without.test.x, within.test.x)
    joined = np.concatenate([within.train.x, within.validation.x])
    assert np.array_equal(np.sort(joined, axis=0), np.sort(without.train.x, axis=0))
    assert abs(len(within.validation.x) / len(without.train.x) - 0.25) < 0.01


def test_the_seed_changes_the_test_samples():
    x = np.arange(100.0)[:, None]
    first, second = (Federation.from_arrays([(x, x[:, 0])], seed=s) for s in (0, 1))
    assert not np.array_equal(first.test.x, second.test.x)


SMALL_PARTIES = [
    (np.full((n, 1), float(k)), np.full(n, k)) for k, n in enumerate((40, 1, 1, 1, 60))
]


def test_small_parties_are_rejected_merged_or_dropped():
    with pytest.raises(
        fp.SettingError, match=r"samples of party '1', '2', '3' must be at least 3 so that"
    ) as error:
        Federation.from_arrays(SMALL_PARTIES)
    assert 'Set small to "merge" (in the shell: --set small=merge)' in str(error.value)
    assert 'small="' not in str(error.value)
    dropped = Federation.from_arrays(SMALL_PARTIES, small="drop")
    assert dropped.names == ("0", "4")
    merged = Federation.from_arrays(SMALL_PARTIES, small="merge")
    assert merged.names == ("0", "4", "1+2+3")
    assert (merged.train.size + merged.test.size).tolist() == [40, 60, 3]
    together = Federation.from_arrays(SMALL_PARTIES, small="merge", least=50)
    assert together.names == ("4+0+1+2+3",)
    with pytest.raises(fp.SettingError, match="at least one party"):
        Federation.from_arrays(SMALL_PARTIES, small="drop", least=100)
    with pytest.raises(fp.SettingError, match="small must be one of refuse, merge, drop"):
        Federation.from_arrays(SMALL_PARTIES[:1], small="hide")
    clash = {"a": np.array([0]), "b": np.array([1, 2]), "a+b": np.arange(3, 40)}
    with pytest.raises(fp.SettingError, match="would create a second party of that name"):
        Federation.from_partition(np.ones((40, 1)), np.ones(40, int), clash, small="merge")


def test_validation_samples_are_taken_from_training_if_test_samples_are_given():
    federation = Federation.from_arrays(SMALL_PARTIES[:1], SMALL_PARTIES[4:], validation_share=0.5)
    assert (federation.train.size[0], federation.validation.size[0], federation.test.size[0]) == (
        20,
        20,
        60,
    )
    with pytest.raises(fp.SettingError, match="given either test samples or"):
        Federation.from_arrays(SMALL_PARTIES[:1], SMALL_PARTIES[4:], test_share=0.5)
    with pytest.raises(fp.SettingError, match="given together with test"):
        Federation.from_arrays(SMALL_PARTIES[:1], validation=SMALL_PARTIES[4:])


def test_a_partys_test_samples_do_not_depend_on_other_parties():
    """They do not depend on ``validation_share`` either, even if a small party is dropped."""
    x = np.arange(63, dtype=np.float32)[:, None]
    rows = {"a": np.arange(2), "b": np.arange(2, 33), "c": np.arange(33, 63)}
    y = np.arange(63) % 3
    plain = Federation.from_partition(x, y, rows, small="drop")
    tuned = Federation.from_partition(x, y, rows, small="drop", validation_share=0.3)
    alone = Federation.from_partition(x, y, {"c": rows["c"]})
    assert plain.names == tuned.names == ("b", "c")
    for k in (0, 1):
        np.testing.assert_array_equal(plain.test.party(k)[0], tuned.test.party(k)[0])
    np.testing.assert_array_equal(plain.test.party(1)[0], alone.test.party(0)[0])


@pytest.mark.parametrize("test_share", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("validation_share", [0.0, 0.01, 0.99])
def test_three_samples_give_one_to_each_split(test_share, validation_share):
    federation = Federation.from_arrays(
        [(np.ones((3, 1)), np.arange(3))], test_share=test_share, validation_share=validation_share
    )
    assert federation.test.size[0] == 1
    assert federation.train.size[0] == (1 if validation_share else 2)


@pytest.mark.parametrize(
    ("split", "match"),
    [
        ({"test_size": 0.5}, "setting must be one of: test_share, validation_share, small"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"test_share": "0.2"}, "test_share must be a finite number"),
        ({"test_share": 0}, "test_share must be a finite number > 0"),
        ({"validation_share": 1.0}, "validation_share must be below 1"),
        ({"least": 2.5}, "least must be a whole number"),
    ],
)
def test_unknown_and_impossible_settings_are_rejected(split, match):
    for call in (
        lambda: Federation.from_arrays(SMALL_PARTIES[:1], **split),
        lambda: Federation.from_partition(*SMALL_PARTIES[0], partition.iid(2), **split),
    ):
        with pytest.raises(fp.SettingError, match=match):
            call()
