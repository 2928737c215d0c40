"""A damaged run folder is one line that names the file, never another error."""

import os
import tempfile
from pathlib import Path

import pytest
from damage import good, single_values, whole_files

from command import refused
from fedplus.check import SettingError
from fedplus.experiments.run_folder import RunFolder
from fedplus.report.html import render_report
from fedplus.report.run_data import read_run_data


def told(run):
    """The refusal; empty if there is a report."""
    said = ""
    try:
        render_report([RunFolder(run)]).encode()
    except SettingError as error:
        said = str(error)
    assert len(said.splitlines()) <= 1
    assert len(said) < 1000
    return said


def test_every_whole_file(tmp_path):
    said = {run.name: told(run) for run in whole_files(tmp_path)}
    assert "status.json" in said["status-json-junk"]
    assert "parties.json" in said["parties-json-list"]
    assert "rounds.jsonl" in said["rounds-jsonl-text"]
    assert "rounds.jsonl" in said["rounds-jsonl-folder"]
    assert said["rounds-jsonl-missing"] == ""
    assert said["env-json-missing"] == ""


def test_every_single_value(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "plotly.offline.get_plotlyjs", lambda: ""
    )  # 4 MB that the page only carries.
    refusals = [text for what, run in single_values(tmp_path) if (text := told(run))]
    assert len(refusals) > 50
    for text in refusals:
        assert any(file in text for file in ("status.json", "parties.json", "rounds.jsonl")), text


def test_a_line_that_is_not_the_last_one_is_named(tmp_path):
    run = good(tmp_path / "run").path
    lines = (run / "rounds.jsonl").read_text().splitlines()
    (run / "rounds.jsonl").write_text("\n".join(["[]", *lines]) + "\n")
    with pytest.raises(SettingError, match=r"rounds\.jsonl, line 1, is damaged"):
        read_run_data(RunFolder(run))


def test_the_command_says_it_in_one_line(tmp_path):
    run = good(tmp_path / "run").path
    (run / "rounds.jsonl").write_text('{"round": "x"}\n')
    assert "rounds.jsonl" in refused("report", run)
    (run / "rounds.jsonl").unlink()
    os.mkfifo(run / "rounds.jsonl")  # Reading it would wait for ever.
    assert "rounds.jsonl" in refused("report", run)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs users")
def test_files_that_may_not_be_read():
    """As another user, where this process may become one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        runs = {}
        for file in ("status.json", "parties.json", "rounds.jsonl", "spec.toml", "env.json"):
            run = good(Path(folder) / file.replace(".", "-")).path
            told(run)
            run.chmod(0o755)
            for other in run.iterdir():
                other.chmod(0o644)
            (run / file).chmod(0)
            runs[file] = run
        was = os.geteuid()
        if was == 0:
            os.seteuid(65534)
        try:
            said = {file: told(run) for file, run in runs.items()}
        finally:
            os.seteuid(was)
    for file, text in said.items():
        assert file in text
        assert "Permission denied" in text
