"""Partitioners against their definitions (``data/partition.py``)."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import fedplus as fp
from fedplus.data import partition
from fedplus.data.sets.letters import build_federation

LABELS = np.repeat(np.arange(10), np.arange(100, 200, 10))


PARTITIONERS = {
    "iid": partition.iid(7),
    "dirichlet": partition.dirichlet(7, alpha=0.5),
    "shards": partition.shards(7, classes=2),
    "uneven shards": partition.shards(7, classes=3, uneven=2.0, least=5),
    "power law": partition.power_law(7),
    "by column": partition.by_column(np.arange(len(LABELS)) % 7),
}


@pytest.mark.parametrize("partitioner", PARTITIONERS.values(), ids=PARTITIONERS)
@given(seed=st.integers(0, 2**32))
def test_a_partitioner_uses_each_sample_at_most_once_and_depends_only_on_the_seed(
    partitioner, seed
):
    rows = partitioner(LABELS, np.random.default_rng(seed))
    again = partitioner(LABELS, np.random.default_rng(seed))
    joined = np.concatenate(list(rows.values()))
    assert list(rows) == [str(k) for k in range(7)]
    assert len(np.unique(joined)) == len(joined)
    assert all(np.array_equal(rows[k], again[k]) for k in rows)


@pytest.mark.parametrize("name", ["iid", "dirichlet", "uneven shards", "power law", "by column"])
def test_no_sample_is_left_out(name):
    rows = PARTITIONERS[name](LABELS, np.random.default_rng(0))
    assert np.array_equal(np.sort(np.concatenate(list(rows.values()))), np.arange(len(LABELS)))


def party_sizes(rows):
    return np.array([len(part) for part in rows.values()])


def test_iid_parts_are_equal():
    assert np.ptp(party_sizes(PARTITIONERS["iid"](LABELS, np.random.default_rng(0)))) <= 1


@given(seed=st.integers(0, 1000), classes=st.integers(1, 10), parties=st.integers(1, 40))
def test_shards_give_each_party_its_number_of_classes_and_enough_samples_of_each(
    seed, classes, parties
):
    partitioner = partition.shards(parties, classes, uneven=1.0, least=2)
    for part in partitioner(LABELS, np.random.default_rng(seed)).values():
        held, count = np.unique(LABELS[part], return_counts=True)
        assert len(held) == classes
        assert count.min() >= 2


def test_parties_of_equal_shards_have_equal_parts_of_a_class():
    rows = partition.shards(20, classes=2)(LABELS, np.random.default_rng(0))
    counts = np.stack([np.bincount(LABELS[part], minlength=10) for part in rows.values()])
    for c in range(10):
        assert np.ptp(counts[counts[:, c] > 0, c]) <= 1


def test_power_law_sizes_have_the_set_deviation():
    y = np.zeros(100_000, int)
    for uneven in (0.0, 1.0, 2.0):
        partitioner = partition.power_law(1000, uneven=uneven, least=1)
        spread = np.log(party_sizes(partitioner(y, np.random.default_rng(0)))).std()
        assert abs(spread - uneven) < 0.35


def test_dirichlet_skews_more_with_a_smaller_alpha():
    def largest_share(alpha):
        rows = partition.dirichlet(10, alpha)(LABELS, np.random.default_rng(0))
        return np.mean([np.bincount(LABELS[r]).max() / len(r) for r in rows.values()])

    assert largest_share(0.1) > 0.4 > 0.25 > largest_share(100.0)


def test_the_values_of_a_column_are_the_parties_names():
    partitioner = partition.by_column(["b", "a", "b", "c"])
    assert {k: v.tolist() for k, v in partitioner(np.zeros(4), None).items()} == {
        "a": [1], "b": [0, 2], "c": [3],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("partitioner", "match"),
    [
        (partition.iid(0), "parties must be a whole number from 1 to 1450, got 0"),
        (partition.iid(10_000), "got 10000. There are not enough samples for more"),
        (partition.shards(5, classes=11), "classes must be from 1 to 10, got 11"),
        (partition.shards(500, classes=1, least=4), "parties must be"),
        (partition.shards(100, classes=1, least=12), "least must be at most 10"),
        (partition.dirichlet(12, 1e-4, least=100), "at least 100 samples per party in 1000 draws"),
        (partition.by_column([1, 2]), "column must be of 1450 values, one per sample"),
    ],
)
def test_an_impossible_partition_raises_a_one_line_error(partitioner, match):
    with pytest.raises(fp.SettingError, match=match) as error:
        partitioner(LABELS, np.random.default_rng(0))
    assert "\n" not in str(error.value)


def test_letters_that_are_too_rare_for_their_parties_are_named():
    y = np.repeat(np.arange(10), [3, *[50] * 9])
    with pytest.raises(
        fp.SettingError, match=r"got 20\. 10 parties share the letter a, which has 3 images\."
    ):
        build_federation(
            np.zeros((y.size, 784), np.float32), y, seed=0, parties=20, letters=5, test_share=0.2,
            validation_share=0.0,
        )  # fmt: skip
