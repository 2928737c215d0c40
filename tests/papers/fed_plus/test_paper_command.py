"""``python -m papers.fed_plus`` as a user has it."""

import json

import pytest
from papers.fed_plus.results import read_csv
from papers.fed_plus.studies import STUDIES

from command import fedplus, refused

SMALL = ("--quick", "--jobs", "1", "--methods", "fedgeomed+")


def test_studies_are_listed():
    out, _ = fedplus("paper", "--list")
    assert [line.split()[0] for line in out.splitlines()] == list(STUDIES)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tabel2",), "Did you mean table2?"),
        ((), "STUDY must be all or one of: table2"),
        (("table2", "--seeds", "0"), "--seeds must be a whole number ≥ 1"),
        (("table2", "--device", "tpu"), "--device must be cpu or gpu"),
        (("table2", "--jobs", "0"), "--jobs must be a whole number ≥ 1"),
        (("table2", "--only", "cifar"), "--only must be part of a specification's name"),
    ],
)
def test_refusals(arguments, told, tmp_path):
    assert told in refused("paper", *arguments, cwd=tmp_path)
    assert not any(tmp_path.iterdir())


def test_theory_from_beginning_to_end(tmp_path):
    fedplus("paper", "theory", *SMALL, "--out", tmp_path / "out", "--results", tmp_path / "kept")
    rows = read_csv(tmp_path / "kept" / "theory.csv")
    (row,) = rows
    assert row["method"] == "fedgeomed+"
    assert row["rises"] == row["rises_some"] == 0  # Theorem 1.
    assert row["gradient_last"] < 0.01 * row["gradient_first"]
    assert row["recorded"] < 1e-4  # The engine, in float32, walks the same way.
    for name in ("theory.svg", "theory.png", "theory.toml", "theory-curves.csv"):
        assert (tmp_path / "kept" / name).stat().st_size > 0
    status = tmp_path / "out/quick/theory/theory/fedgeomed+-0/status.json"
    before = status.read_bytes()
    assert json.loads(before)["state"] == "finished"
    fedplus("paper", "theory", *SMALL, "--out", tmp_path / "out")
    assert status.read_bytes() == before  # Not trained again: it would tell another time.
