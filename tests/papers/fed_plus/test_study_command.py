"""``python -m papers.fed_plus``: its options, and the theory study from beginning to end."""

import json

import pytest
from papers.fed_plus.registry import STUDIES
from papers.fed_plus.results import read_csv
from study_command import run_study

SMALL = ("--quick", "--jobs", "1", "--methods", "fedgeomed+")


def test_list_names_all_studies():
    out, _ = run_study("--list")
    assert [line.split()[0] for line in out.splitlines()] == list(STUDIES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tabel2",), "Did you mean table2?"),
        ((), "STUDY must be all or one of: table2"),
        (("table2", "--seeds", "0"), "--seeds must be a whole number ≥ 1"),
        (("table2", "--device", "tpu"), "--device must be cpu or gpu"),
        (("table2", "--jobs", "0"), "--jobs must be a whole number ≥ 1"),
        (("table2", "--only", "cifar"), "--only must be part of a specification's name"),
    ],
)
def test_wrong_arguments_are_rejected_in_one_line(arguments, message, tmp_path):
    out, errors = run_study(*arguments, cwd=tmp_path, status=2)
    (line,) = errors.strip().splitlines()
    assert out == ""
    assert line.startswith("fedplus: ")
    assert message in line
    assert not any(tmp_path.iterdir())


def test_theory_from_beginning_to_end(tmp_path):
    runs, results = tmp_path / "out", tmp_path / "results"
    run_study("theory", *SMALL, "--out", runs, "--results", results)
    (row,) = read_csv(results / "theory.csv")
    assert row["method"] == "fedgeomed+"
    assert row["rises"] == row["rises_some"] == 0  # Theorem 1.
    assert row["gradient_last"] < 0.01 * row["gradient_first"]
    assert row["recorded"] < 1e-4  # The engine, in float32, follows the same trajectory.
    for name in ("theory.svg", "theory.png", "theory.toml", "theory-curves.csv"):
        assert (results / name).stat().st_size > 0
    status = runs / "quick/theory/theory/fedgeomed+-0/status.json"
    before = status.read_bytes()
    assert json.loads(before)["state"] == "finished"
    run_study("theory", *SMALL, "--out", runs)
    assert status.read_bytes() == before  # A repeated run would record another time.
