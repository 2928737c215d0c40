"""``fedplus run --resume RUN --rounds T`` extends a finished run to what T rounds at once give."""

import pytest

from command import fedplus, refused

RUN = [
    "run", "digits-robust", "--set", "parties=4", "--set", "evaluate_every=2", "--set", "steps=2",
]  # fmt: skip
FILES = ("rounds.jsonl", "parties.json", "metrics.json", "model.json", "global.safetensors")


def same_files(first, second):
    assert (first / "spec.toml").read_text() == (second / "spec.toml").read_text()
    names = [*FILES, *(f"models/{path.name}" for path in (first / "models").iterdir())]
    assert len(names) == len(FILES) + 4
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


@pytest.mark.parametrize("method", ["fedgeomed+", "fedavg"])
def test_an_extended_run_has_the_files_of_one_with_all_rounds(tmp_path, method):
    """These include the scores of local SGD, which is trained anew with as many rounds."""
    extended, whole = tmp_path / "extended", tmp_path / "whole"
    fedplus(*RUN, "-m", method, "--rounds", 4, "--out", extended)
    parties = (extended / "parties.json").read_text()
    fedplus("run", "--resume", extended, "--rounds", 8)
    fedplus(*RUN, "-m", method, "--rounds", 8, "--out", whole)
    same_files(extended, whole)
    assert (extended / "parties.json").read_text() != parties
    stamp = (extended / "status.json").stat().st_mtime_ns
    fedplus("run", "--resume", extended, "--rounds", 8)  # Nothing is left to do.
    assert (extended / "status.json").stat().st_mtime_ns == stamp


@pytest.mark.slow
def test_a_study_is_extended_as_a_whole(tmp_path):
    study = ["compare", *RUN[1:], "--methods", "fedavg", "--seeds", 2]
    fedplus(*study, "--rounds", 4, "--out", tmp_path / "extended")
    fedplus("run", "--resume", tmp_path / "extended", "--rounds", 6)
    fedplus(*study, "--rounds", 6, "--out", tmp_path / "whole")
    for name in ("local-sgd-0", "local-sgd-1", "fedavg-0", "fedavg-1"):
        same_files(tmp_path / "extended" / name, tmp_path / "whole" / name)


def test_a_run_cannot_become_shorter(tmp_path):
    fedplus(*RUN, "-m", "fedavg", "--no-local", "--rounds", 4, "--out", tmp_path / "run")
    message = refused("run", "--resume", tmp_path / "run", "--rounds", 3)
    assert "--rounds must be at least 4, the rounds of the run so far, got 3" in message
