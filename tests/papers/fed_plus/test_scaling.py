"""Scaling: the paper's numbers of parties, and what "grows" means."""

import pytest
from papers.fed_plus.specs import published
from papers.fed_plus.study import Asked

from papers.fed_plus import scaling, scaling_text

# Section 5.2, last paragraph.
PRINTED = {
    "synthetic": ([3, 15, 30], [70.22, 90.73, 98.03]),
    "mnist": ([100, 500, 1000], [69.80, 81.34, 83.36]),
    "femnist": ([20, 100, 200], [25.16, 68.71, 78.66]),
    "sent140": ([77, 386, 772], [57.13, 60.77, 65.43]),
}


def test_the_papers_scaling_numbers_are_as_printed():
    rows = published()["scaling"]["rows"]
    assert {data: tuple(map(list, zip(*of, strict=True))) for data, of in rows.items()} == PRINTED


@pytest.mark.parametrize("data", [*PRINTED, "synthetic-shared"])
def test_fewer_parties_are_the_first_ones_of_figure_4(data, tmp_path):
    asked = Asked(tmp_path / "scaling")
    found = scaling.specs_of(asked, data)
    counts = PRINTED[data.removesuffix("-shared")][0]
    assert list(found) == counts
    for n, specs in found.items():
        for name, one in specs.items():
            methods = {method.name for method in one.methods}
            assert methods <= set(scaling.METHODS)
            assert one.train.cohort == min(10, n)
            if n < counts[-1]:
                assert one.data.first == n
                assert f"-first-{n}" in name
    whole = [name for name in found[counts[-1]] if "first" not in name]
    assert whole == [data, f"{data}-by-size"]


@pytest.mark.parametrize(
    ("values", "told"),
    [([1.0, 2, 3], "yes"), ([1.0, 3, 2], "no"), ([1.0, None], "not tried"), ([1.0], "not tried")],
)
def test_grows(values, told):
    assert scaling_text.grows(values) == told


def test_the_mean_is_over_the_variants_that_were_trained():
    records = [
        {"parties": 3.0, "method": method, "own_pooled": score}
        for method, score in (("fedavg+", 0.5), ("fedgeomed+", 0.6), ("local", 0.9))
    ]
    assert scaling_text.fed_plus(records, 3, "own") == pytest.approx(55)
    assert scaling_text.fed_plus(records[2:], 3, "own") is None
    records.append({"parties": 3.0, "method": "fedcomed+", "own_pooled": 0.7})
    assert scaling_text.fed_plus(records, 3, "own") == pytest.approx(60)


def test_the_spread_is_that_of_the_variant_that_spreads_most():
    def one(method, std, n=3.0):
        return {"parties": n, "method": method, "own_pooled_std": std}

    records = [
        one("fedavg+", 0.01),
        one("fedcomed+", 0.03),
        one("local", 0.5),
        one("fedavg+", 0.9, 9.0),
    ]
    assert scaling_text.spread(records, 3.0, ("fedavg+", "fedcomed+")) == pytest.approx(3.0)
    assert scaling_text.spread([one("fedavg+", None)], 3.0, ("fedavg+",)) is None
