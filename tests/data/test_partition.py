"""Partitioners by their definitions; what is set aside; what becomes of tiny parties."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import fedplus as fp
from fedplus.data import Federation, partition
from fedplus.data.holdout import stratified_sample

Y = np.repeat(np.arange(10), np.arange(100, 200, 10))
EVERY = {
    "iid": partition.iid(7),
    "dirichlet": partition.dirichlet(7, alpha=0.5),
    "shards": partition.shards(7, classes=2),
    "uneven shards": partition.shards(7, classes=3, uneven=2.0, least=5),
    "power law": partition.power_law(7),
    "by column": partition.by_column(np.arange(len(Y)) % 7),
}


@pytest.mark.parametrize("how", EVERY.values(), ids=EVERY)
@given(seed=st.integers(0, 2**32))
def test_every_partitioner_deals_out_each_sample_at_most_once_and_by_the_seed_alone(how, seed):
    rows = how(Y, np.random.default_rng(seed))
    again = how(Y, np.random.default_rng(seed))
    joined = np.concatenate(list(rows.values()))
    assert list(rows) == [str(k) for k in range(7)]
    assert len(np.unique(joined)) == len(joined)
    assert all(np.array_equal(rows[k], again[k]) for k in rows)


@pytest.mark.parametrize("name", ["iid", "dirichlet", "uneven shards", "power law", "by column"])
def test_and_no_sample_is_lost(name):
    rows = EVERY[name](Y, np.random.default_rng(0))
    assert np.array_equal(np.sort(np.concatenate(list(rows.values()))), np.arange(len(Y)))


def sizes(rows):
    return np.array([len(mine) for mine in rows.values()])


def test_iid_parts_are_equal():
    assert np.ptp(sizes(EVERY["iid"](Y, np.random.default_rng(0)))) <= 1


@given(seed=st.integers(0, 1000), classes=st.integers(1, 10), parties=st.integers(1, 40))
def test_shards_give_each_party_so_many_classes_and_so_many_samples_of_each(seed, classes, parties):
    how = partition.shards(parties, classes, uneven=1.0, least=2)
    for mine in how(Y, np.random.default_rng(seed)).values():
        held, count = np.unique(Y[mine], return_counts=True)
        assert len(held) == classes
        assert count.min() >= 2


def test_equal_shards_share_a_class_equally():
    rows = partition.shards(20, classes=2)(Y, np.random.default_rng(0))
    counts = np.stack([np.bincount(Y[mine], minlength=10) for mine in rows.values()])
    for c in range(10):
        assert np.ptp(counts[counts[:, c] > 0, c]) <= 1


def test_power_law_sizes_are_uneven_as_asked():
    y = np.zeros(100_000, int)
    for uneven in (0.0, 1.0, 2.0):
        how = partition.power_law(1000, uneven=uneven, least=1)
        spread = np.log(sizes(how(y, np.random.default_rng(0)))).std()
        assert abs(spread - uneven) < 0.35


def test_dirichlet_skews_more_with_a_smaller_alpha():
    def largest_share(alpha):
        rows = partition.dirichlet(10, alpha)(Y, np.random.default_rng(0))
        return np.mean([np.bincount(Y[r]).max() / len(r) for r in rows.values()])

    assert largest_share(0.1) > 0.4 > 0.25 > largest_share(100.0)


def test_a_column_names_its_parties():
    how = partition.by_column(["b", "a", "b", "c"])
    assert {k: v.tolist() for k, v in how(np.zeros(4), None).items()} == {
        "a": [1], "b": [0, 2], "c": [3],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("how", "match"),
    [
        (partition.iid(0), "parties must be a whole number from 1 to 1450, got 0"),
        (partition.iid(10_000), "got 10000. There is no more data"),
        (partition.shards(5, classes=11), "classes must be from 1 to 10, got 11"),
        (partition.shards(500, classes=1, least=4), "parties must be"),
        (partition.shards(100, classes=1, least=12), "least must be at most 10"),
        (partition.dirichlet(12, 1e-4, least=100), "Raise alpha, or lower least"),
        (partition.by_column([1, 2]), "column must be of 1450 values, one a sample"),
    ],
)
def test_what_cannot_be_dealt_out_is_one_line(how, match):
    with pytest.raises(fp.SettingError, match=match) as error:
        how(Y, np.random.default_rng(0))
    assert "\n" not in str(error.value)


@given(
    seed=st.integers(0, 10_000), share=st.floats(0.01, 0.99),
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(lambda c: sum(c) >= 2),
)  # fmt: skip
def test_what_is_set_aside_is_stratified_to_within_a_sample(seed, share, counts):
    y = np.repeat(np.arange(len(counts)), counts)
    rows = np.random.default_rng(seed).permutation(len(y))
    kept, aside = stratified_sample(rows, y, share, np.random.default_rng(seed))
    assert np.array_equal(np.sort(np.concatenate([kept, aside])), np.arange(len(y)))
    assert len(aside) == min(max(1, round(share * len(y))), len(y) - 1)
    expected = np.array(counts) * len(aside) / len(y)
    got = np.bincount(y[aside], minlength=len(counts))
    assert (np.abs(got - expected) < 1 + 1e-9).all()


def federation(**split):
    x = np.arange(len(Y), dtype=float)[:, None]
    return Federation.from_partition(x, Y, partition.iid(6), seed=3, **split)


def test_the_test_samples_do_not_depend_on_validation():
    """Settings chosen on validation samples never saw a test sample."""
    without, within = federation(), federation(validation_share=0.25)
    assert np.array_equal(without.test.x, within.test.x)
    joined = np.concatenate([within.train.x, within.validation.x])
    assert np.array_equal(np.sort(joined, axis=0), np.sort(without.train.x, axis=0))
    assert abs(len(within.validation.x) / len(without.train.x) - 0.25) < 0.01


def test_another_seed_another_split():
    x = np.arange(100.0)[:, None]
    one, other = (Federation.from_arrays([(x, x[:, 0])], seed=s) for s in (0, 1))
    assert not np.array_equal(one.test.x, other.test.x)


TINY = [(np.full((n, 1), float(k)), np.full(n, k)) for k, n in enumerate((40, 1, 1, 1, 60))]


def test_tiny_parties_are_refused_merged_or_dropped():
    with pytest.raises(fp.SettingError, match=r"party '1', '2', '3' must be of at least 3 samples"):
        Federation.from_arrays(TINY)
    dropped = Federation.from_arrays(TINY, small="drop")
    assert dropped.names == ("0", "4")
    merged = Federation.from_arrays(TINY, small="merge")
    assert merged.names == ("0", "4", "1+2+3")
    assert (merged.train.size + merged.test.size).tolist() == [40, 60, 3]
    together = Federation.from_arrays(TINY, small="merge", least=50)
    assert together.names == ("4+0+1+2+3",)
    with pytest.raises(fp.SettingError, match="at least one party"):
        Federation.from_arrays(TINY, small="drop", least=100)
    with pytest.raises(fp.SettingError, match="small must be one of refuse, merge, drop"):
        Federation.from_arrays(TINY[:1], small="hide")
    clash = {"a": np.array([0]), "b": np.array([1, 2]), "a+b": np.arange(3, 40)}
    with pytest.raises(fp.SettingError, match="small parties joined would have it, too"):
        Federation.from_partition(np.ones((40, 1)), np.ones(40, int), clash, small="merge")


def test_given_test_samples_leave_training_samples_for_validation():
    made = Federation.from_arrays(TINY[:1], TINY[4:], validation_share=0.5)
    assert (made.train.size[0], made.validation.size[0], made.test.size[0]) == (20, 20, 60)
    with pytest.raises(fp.SettingError, match="given either test samples or"):
        Federation.from_arrays(TINY[:1], TINY[4:], test_share=0.5)
    with pytest.raises(fp.SettingError, match="given together with test"):
        Federation.from_arrays(TINY[:1], validation=TINY[4:])


def test_standardised_by_the_training_samples_of_all_parties():
    rng = np.random.default_rng(0)
    parties = [(rng.normal(k, 1 + k, size=(50, 3)), rng.normal(size=50)) for k in range(3)]
    raw = Federation.from_arrays(parties, validation_share=0.2)
    made = raw.standardise()
    assert np.allclose(made.train.x.mean(0), 0, atol=1e-5)
    assert np.allclose(made.train.x.std(0), 1, atol=1e-5)
    expected = (raw.test.x - raw.train.x.mean(0)) / raw.train.x.std(0)
    assert np.allclose(made.test.x, expected, atol=1e-5)
    constant = Federation.from_arrays([(np.ones((9, 2)), np.ones(9))]).standardise()
    assert np.isfinite(constant.train.x).all()


def test_who_else_there_is_does_not_change_a_partys_test_samples():
    """Nor does dropping a party too small to have validation samples: nothing leaks into tuning."""
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
def test_of_three_samples_each_kind_gets_its_own(test_share, validation_share):
    made = Federation.from_arrays(
        [(np.ones((3, 1)), np.arange(3))], test_share=test_share, validation_share=validation_share
    )
    assert made.test.size[0] == 1
    assert made.train.size[0] == (1 if validation_share else 2)


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
def test_a_misspelt_or_impossible_setting_is_refused(split, match):
    for call in (
        lambda: Federation.from_arrays(TINY[:1], **split),
        lambda: Federation.from_partition(*TINY[0], partition.iid(2), **split),
    ):
        with pytest.raises(fp.SettingError, match=match):
            call()


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ({"a": [0, 1, 999]}, "rows must be from 0 to 39"),
        ({"a": [-1, 1, 2]}, "rows must be from 0 to 39"),
        ({"a": [0, 1, 2], "b": [2, 3, 4]}, "each of one party alone"),
        ({"a": [0, 0, 1]}, "each of one party alone"),
        ({"a": np.ones(40, bool)}, "rows of party 'a' must be row numbers"),
        ({}, "parties must be at least one"),
    ],
)
def test_rows_must_be_there_and_one_partys(rows, match):
    with pytest.raises(fp.SettingError, match=match):
        Federation.from_partition(*TINY[0], rows)
    lists = Federation.from_partition(*TINY[0], {"a": [0, 1, 2, 3]})
    assert lists.train.size[0] + lists.test.size[0] == 4


def test_standardised_survives_large_means_and_constant_columns():
    rng = np.random.default_rng(0)
    x = rng.normal(1000, 1, size=(300_000, 2)).astype(np.float32)
    x[:, 1] = 0.1
    made = Federation.from_arrays([(x, np.zeros(len(x), int))]).standardise()
    assert abs(made.train.x[:, 0].mean(dtype=float)) < 1e-2
    assert abs(made.train.x[:, 0].std(dtype=float) - 1) < 1e-2
    assert np.abs(made.train.x[:, 1]).max() < 1e-5


def test_labels_beyond_32_bits_are_refused():
    with pytest.raises(fp.SettingError, match="of 32 bits"):
        Federation.from_arrays([(np.ones((5, 1)), np.arange(5) + 2**40)])
