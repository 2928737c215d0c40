"""Scaling: the paper's numbers of parties, and the summaries in the tables."""

import pytest
from papers.fed_plus.specs import published_results
from papers.fed_plus.study import StudyOptions

from papers.fed_plus import scaling, scaling_report

# Section 5.2, last paragraph.
PRINTED = {
    "synthetic": ([3, 15, 30], [70.22, 90.73, 98.03]),
    "mnist": ([100, 500, 1000], [69.80, 81.34, 83.36]),
    "femnist": ([20, 100, 200], [25.16, 68.71, 78.66]),
    "sent140": ([77, 386, 772], [57.13, 60.77, 65.43]),
}


def test_the_papers_scaling_numbers_are_as_printed():
    rows = published_results()["scaling"]["rows"]
    assert {data: tuple(map(list, zip(*of, strict=True))) for data, of in rows.items()} == PRINTED


@pytest.mark.parametrize("data", [*PRINTED, "synthetic-shared"])
def test_fewer_parties_are_the_first_ones_of_figure_4(data, tmp_path):
    options = StudyOptions(tmp_path / "scaling")
    by_count = scaling.specs_by_party_count(options, data)
    counts = PRINTED[data.removesuffix("-shared")][0]
    assert list(by_count) == counts
    for n, specs in by_count.items():
        for name, spec in specs.items():
            methods = {method.name for method in spec.methods}
            assert methods <= set(scaling.METHODS)
            assert spec.train.cohort == min(10, n)
            if n < counts[-1]:
                assert spec.data.first == n
                assert f"-first-{n}" in name
    whole = [name for name in by_count[counts[-1]] if "first" not in name]
    assert whole == [data, f"{data}-by-size"]


@pytest.mark.parametrize(
    ("values", "answer"),
    [([1.0, 2, 3], "yes"), ([1.0, 3, 2], "no"), ([1.0, None], "not tried"), ([1.0], "not tried")],
)
def test_accuracy_grows_if_every_value_is_larger(values, answer):
    assert scaling_report.describe_growth(values) == answer


def test_the_mean_is_over_the_variants_that_were_trained():
    records = [
        {"parties": 3.0, "method": method, "own_pooled": score}
        for method, score in (("fedavg+", 0.5), ("fedgeomed+", 0.6), ("local", 0.9))
    ]
    assert scaling_report.mean_of_variants(records, 3, "own") == pytest.approx(55)
    assert scaling_report.mean_of_variants(records[2:], 3, "own") is None
    records.append({"parties": 3.0, "method": "fedcomed+", "own_pooled": 0.7})
    assert scaling_report.mean_of_variants(records, 3, "own") == pytest.approx(60)


def test_the_standard_deviation_is_the_largest_of_the_methods():
    def record(method, std, n=3.0):
        return {"parties": n, "method": method, "own_pooled_std": std}

    records = [
        record("fedavg+", 0.01),
        record("fedcomed+", 0.03),
        record("local", 0.5),
        record("fedavg+", 0.9, 9.0),
    ]
    assert scaling_report.largest_std(records, 3.0, ("fedavg+", "fedcomed+")) == pytest.approx(3.0)
    assert scaling_report.largest_std([record("fedavg+", None)], 3.0, ("fedavg+",)) is None
