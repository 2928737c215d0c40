"""A target with many whole numbers needs a ``task``: in Python, in TOML and on the command line."""

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
from fedplus.data.tables import MAX_INFERRED_CLASSES


@pytest.fixture(params=["csv", "npz"])
def ages(request, tmp_path):
    """Write the files of two hospitals whose target is an age, and return their folder."""
    folder = tmp_path / "hospitals"
    folder.mkdir()
    for name in ("north", "south"):
        x, age = np.linspace(0, 1, 80), np.arange(80) % 60 + 20
        if request.param == "npz":
            np.savez(folder / f"{name}.npz", x=x[:, None], y=age)
        else:
            rows = "".join(f"{a},{b}\n" for a, b in zip(x, age, strict=True))
            (folder / f"{name}.csv").write_text(f"dose,y\n{rows}")
    return folder


def test_python_raises_an_error_that_names_the_setting(ages):
    with pytest.raises(SettingError) as caught:
        Federation.from_folder(ages)
    message = str(caught.value)
    assert message.startswith("task must be")
    assert "60 different whole numbers" in message
    assert 'Set task to "regression" (in the shell: --set task=regression)' in message
    assert "Pass task=" not in message
    assert f"more than {MAX_INFERRED_CLASSES}" in message
    assert Federation.from_folder(ages, task="regression").train.y.dtype == np.float32
    classes = Federation.from_folder(ages, task="classification").info.classes
    assert classes == tuple(str(age) for age in range(20, 80))


def test_a_frame_with_at_most_20_whole_numbers_has_classes():
    import pandas as pd

    def build(distinct, **settings):
        frame = pd.DataFrame(
            {"who": ["a", "b"] * 60, "x": np.arange(120.0), "y": np.arange(120) % distinct}
        )
        return Federation.from_frame(frame, party="who", target="y", **settings)

    assert len(build(MAX_INFERRED_CLASSES).info.classes) == MAX_INFERRED_CLASSES
    with pytest.raises(SettingError, match="task must be"):
        build(MAX_INFERRED_CLASSES + 1)
    with pytest.raises(SettingError, match="task must be classification or regression, got 'both'"):
        build(3, task="both")


def test_the_command_line_names_the_option_and_the_toml_key(ages, tmp_path):
    run = ["run", ages, "-m", "local", "--rounds", "1", "--out"]
    message = refused(*run, tmp_path / "a")
    assert "--set task=regression" in message
    assert "--set task=classification" in message
    assert "60 different whole numbers" in message
    assert not (tmp_path / "a").exists()
    fedplus(*run, tmp_path / "a", "--set", "task=regression")
    assert 'task = "regression"' in (tmp_path / "a" / "spec.toml").read_text()
    file = tmp_path / "e.toml"
    file.write_text(f'data = {{ folder = "{ages}" }}\nmethods = [{{ name = "local" }}]\n')
    message = refused("run", file, "--rounds", "1", "--out", tmp_path / "b")
    assert str(file) in message
    assert 'task = "regression"' in message


def run_and_answer(arguments, answer):
    """Run a command at a terminal, answer its question, and return its output and its status."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment(TERM="dumb"), start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    output, has_answered, deadline = b"", False, time.monotonic() + 240
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            part = os.read(ours, 4096)
        except OSError:  # The other end is closed.
            break
        output += part
        if not has_answered and b"egression]" in output:
            os.write(ours, answer)
            has_answered = True
    os.close(ours)
    return output.decode(), process.wait(timeout=30)


@pytest.mark.parametrize(
    ("answer", "task"), [(b"r\n", "regression"), (b"what\nclassification\n", "classification")]
)
def test_the_command_asks_for_the_task_at_a_terminal(ages, tmp_path, answer, task):
    out = tmp_path / "out"
    output, status = run_and_answer(
        ["run", ages, "-m", "local", "--rounds", "1", "--out", out], answer
    )
    assert status == 0, output
    assert "60 different whole numbers" in " ".join(output.split())
    assert f'task = "{task}"' in (out / "spec.toml").read_text()


def test_nothing_is_trained_without_an_answer(ages, tmp_path):
    out = tmp_path / "out"
    output, status = run_and_answer(["run", ages, "-m", "local", "--out", out], b"\x04")
    assert status in (1, 2), output
    assert not out.exists()
