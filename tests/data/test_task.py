"""A target with many whole numbers is not made into classes unless somebody says so."""

import os
import pty
import select
import subprocess
import time

import numpy as np
import pytest

from command import COMMAND, environment, fedplus, refused
from fedplus.check import SettingError
from fedplus.data import Federation
from fedplus.data.tables import MOST_CLASSES


@pytest.fixture(params=["csv", "npz"])
def ages(request, tmp_path):
    """Two hospitals, and an age to predict."""
    folder = tmp_path / "hospitals"
    folder.mkdir()
    for who in ("north", "south"):
        x, age = np.linspace(0, 1, 80), np.arange(80) % 60 + 20
        if request.param == "npz":
            np.savez(folder / f"{who}.npz", x=x[:, None], y=age)
        else:
            rows = "".join(f"{a},{b}\n" for a, b in zip(x, age, strict=True))
            (folder / f"{who}.csv").write_text(f"dose,y\n{rows}")
    return folder


def test_python_names_the_argument(ages):
    with pytest.raises(SettingError) as caught:
        Federation.from_folder(ages)
    said = str(caught.value)
    assert said.startswith("task must be")
    assert "60 different whole numbers" in said
    assert f"more than {MOST_CLASSES}" in said
    assert Federation.from_folder(ages, task="regression").train.y.dtype == np.float32
    classes = Federation.from_folder(ages, task="classification").info.classes
    assert classes == tuple(str(age) for age in range(20, 80))


def test_frames_and_few_numbers():
    import pandas as pd

    def made(different, **given):
        frame = pd.DataFrame(
            {"who": ["a", "b"] * 60, "x": np.arange(120.0), "y": np.arange(120) % different}
        )
        return Federation.from_frame(frame, party="who", target="y", **given)

    assert len(made(MOST_CLASSES).info.classes) == MOST_CLASSES
    with pytest.raises(SettingError, match="task must be"):
        made(MOST_CLASSES + 1)
    with pytest.raises(SettingError, match="task must be classification or regression, got 'both'"):
        made(3, task="both")


def test_the_command_line_names_the_option(ages, tmp_path):
    run = ["run", ages, "-m", "local", "--rounds", "1", "--out"]
    said = refused(*run, tmp_path / "a")
    assert "--set task=regression" in said
    assert "--set task=classification" in said
    assert "60 different whole numbers" in said
    assert not (tmp_path / "a").exists()
    fedplus(*run, tmp_path / "a", "--set", "task=regression")
    assert 'task = "regression"' in (tmp_path / "a" / "spec.toml").read_text()
    file = tmp_path / "e.toml"
    file.write_text(f'data = {{ folder = "{ages}" }}\nmethods = [{{ name = "local" }}]\n')
    said = refused("run", file, "--rounds", "1", "--out", tmp_path / "b")
    assert str(file) in said
    assert 'task = "regression"' in said


def answered(arguments, answer):
    """Run a command at a terminal, answer its question, and return what it showed and its status."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment(TERM="dumb"), start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown, told, deadline = b"", False, time.monotonic() + 240
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            part = os.read(ours, 4096)
        except OSError:  # The other end is closed.
            break
        shown += part
        if not told and b"egression]" in shown:
            os.write(ours, answer)
            told = True
    os.close(ours)
    return shown.decode(), process.wait(timeout=30)


@pytest.mark.parametrize(
    ("answer", "task"), [(b"r\n", "regression"), (b"what\nclassification\n", "classification")]
)
def test_at_a_terminal_it_is_asked(ages, tmp_path, answer, task):
    out = tmp_path / "out"
    shown, status = answered(["run", ages, "-m", "local", "--rounds", "1", "--out", out], answer)
    assert status == 0, shown
    assert "60 different whole numbers" in " ".join(shown.split())
    assert f'task = "{task}"' in (out / "spec.toml").read_text()


def test_no_answer_trains_nothing(ages, tmp_path):
    out = tmp_path / "out"
    shown, status = answered(["run", ages, "-m", "local", "--out", out], b"\x04")
    assert status in (1, 2), shown
    assert not out.exists()
