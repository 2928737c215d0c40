"""``fedplus data`` in a real process, and the cards and pictures that it shows."""

import json
import os
import struct
import subprocess
import sys

import pytest

from fedplus.data import SETS, load
from fedplus.data.card import card_text, statistics
from fedplus.data.picture import draw_federation


def run(*arguments, **environment):
    env = {k: v for k, v in os.environ.items() if k != "FEDPLUS_DATA"} | environment
    return subprocess.run(
        [sys.executable, "-m", "fedplus", *arguments], capture_output=True, text=True, env=env
    )


def test_list_names_every_set_and_marks_stand_ins():
    listed = json.loads(run("data", "list", "--json").stdout)
    assert [row["name"] for row in listed] == list(SETS)
    rows = {row["name"]: row for row in listed}
    assert rows["digits-robust"]["files"] == "none needed"
    assert rows["mnist"]["files"] == "to download"
    assert rows["portfolio"]["files"] == "download by hand"
    assert rows["femnist-standin"]["stand_in_for"] == "femnist"
    shown = run("data", "list").stdout
    assert all(name in shown for name in SETS)
    assert "a stand-in for sent140" in " ".join(shown.split())


def test_where_names_the_missing_files_and_their_origin(tmp_path):
    folders = run("data", "where", XDG_CACHE_HOME=str(tmp_path)).stdout.split()
    assert folders == [str(tmp_path / "fedplus")]
    output = run("data", "where", "femnist").stdout
    assert "emnist/gzip.zip: missing; it comes from https://biometrics.nist.gov" in output
    assert "needs no files" in run("data", "where", "synthetic").stdout
    files = json.loads(run("data", "where", "mnist", "--json").stdout)
    assert [file["at"] for file in files] == [None] * 4


def test_a_card_has_all_its_parts():
    card = run("data", "card", "digits-robust", "--set", "parties=20", "--seed", "3").stdout
    for part in (
        "parties:           20", "samples per party:", "input shape:", "classes per party:",
        "outliers:", "18, 19", "licence:           CC BY 4.0", "source:", "the paper:", "settings:",
    ):  # fmt: skip
        assert part in card
    counted = json.loads(run("data", "card", "synthetic", "--set", "beta=1.5", "--json").stdout)
    assert counted == statistics(load("synthetic", beta=1.5))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["data", "card", "mnst"], "Did you mean mnist?"),
        (["data", "card", "mnist"], "mnist/train-images-idx3-ubyte.gz was not found"),
        (["data", "get", "portfolio"], "https://www.kaggle.com/datasets/camnugent/sandp500"),
        (["data", "card", "digits-robust", "--set", "partys=3"], "must be one of: parties"),
        (["data", "card", "digits-robust", "--set", "3"], "--set must be KEY=VALUE"),
        (["data", "card", "digits-robust", "--set", "parties=many"], "parties must be a whole number"),
        (["data", "card", "digits-robust", "--seed", "x"], "not a valid integer"),
        (["data", "crad"], "Did you mean 'card'?"),
        (["data", "card"], "Missing argument 'NAME|FOLDER|FILE'"),
        (["data", "card", "digits-robust", "--picture", "/no/such/folder/a.png"], "/no/such/folder"),
        (["data", "card", "digits-robust", "--picture", "a.xyz"], "xyz"),
    ],
)  # fmt: skip
def test_wrong_arguments_give_one_line_and_status_2(arguments, match):
    process = run(*arguments)
    assert process.returncode == 2
    assert match in process.stderr
    assert process.stdout == ""
    assert process.stderr.count("\n") == 1


def test_debug_shows_a_traceback_and_help_shows_the_usage():
    assert "Traceback" in run("--debug", "data", "card", "mnst").stderr
    for arguments in (["--help"], ["data", "--help"], ["data"], []):
        process = run(*arguments)
        assert process.returncode == 0
        assert "Usage: " in process.stdout


def test_get_checks_the_files_that_are_present(tmp_path):
    damaged = tmp_path / "tabular" / "school_139schools.npz"
    damaged.parent.mkdir()
    damaged.write_bytes(b"damaged")
    process = run("data", "get", "school", FEDPLUS_DATA=str(tmp_path))
    assert process.returncode == 2
    assert "must have the checksum" in process.stderr


@pytest.mark.parametrize("name", ["digits-personal", "synthetic", "synthetic-regression"])
def test_a_picture_is_a_png_file_of_some_size(tmp_path, name):
    path = draw_federation(load(name), tmp_path / "a.png")
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 900
    assert height > 300
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_a_card_fits_its_width():
    assert max(map(len, card_text(load("synthetic"), 70).splitlines())) <= 70


def test_importing_fedplus_imports_nothing_heavy():
    heavy = ("sklearn", "scipy.stats", "pandas", "polars", "matplotlib", "pooch", "requests", "typer",
             "datasets", "pyarrow")  # fmt: skip
    code = f"import sys, fedplus; print([m for m in {heavy} if m in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"
