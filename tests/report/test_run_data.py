"""A damaged run folder gives a one-line message that names the file, and no other error."""

import os
import tempfile
from pathlib import Path

import pytest
from damaged_runs import damaged_files, damaged_values, intact_run

from command import refused
from fedplus.check import SettingError
from fedplus.experiments.run_folder import RunFolder
from fedplus.report.html import render_report
from fedplus.report.run_data import read_run_data


def error_message(run):
    """Return the message of the error that a report of the run raises, or ""."""
    message = ""
    try:
        render_report([RunFolder(run)]).encode()
    except SettingError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1
    assert len(message) < 1000
    return message


def test_a_damaged_file_is_named_in_one_line(tmp_path):
    messages = {run.name: error_message(run) for run in damaged_files(tmp_path)}
    assert "status.json" in messages["status-json-junk"]
    assert "parties.json" in messages["parties-json-list"]
    assert "rounds.jsonl" in messages["rounds-jsonl-text"]
    assert "rounds.jsonl" in messages["rounds-jsonl-folder"]
    assert messages["rounds-jsonl-missing"] == ""
    assert messages["env-json-missing"] == ""


def test_the_file_of_any_wrong_value_is_named_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "")  # Saves 4 MB per report.
    messages = [text for _, run in damaged_values(tmp_path) if (text := error_message(run))]
    assert len(messages) > 50
    for text in messages:
        assert any(file in text for file in ("status.json", "parties.json", "rounds.jsonl")), text


def test_the_number_of_a_damaged_line_is_named(tmp_path):
    run = intact_run(tmp_path / "run").path
    lines = (run / "rounds.jsonl").read_text().splitlines()
    (run / "rounds.jsonl").write_text("\n".join(["[]", *lines]) + "\n")
    with pytest.raises(SettingError, match=r"rounds\.jsonl, line 1, is damaged"):
        read_run_data(RunFolder(run))


def test_the_command_prints_the_error_in_one_line(tmp_path):
    run = intact_run(tmp_path / "run").path
    (run / "rounds.jsonl").write_text('{"round": "x"}\n')
    assert "rounds.jsonl" in refused("report", run)
    (run / "rounds.jsonl").unlink()
    os.mkfifo(run / "rounds.jsonl")  # Reading a pipe would block for ever.
    assert "rounds.jsonl" in refused("report", run)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs users")
def test_files_without_read_permission_are_named():
    """A root process reads the files as another user."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        runs = {}
        for file in ("status.json", "parties.json", "rounds.jsonl", "spec.toml", "env.json"):
            run = intact_run(Path(folder) / file.replace(".", "-")).path
            error_message(run)
            run.chmod(0o755)
            for other in run.iterdir():
                other.chmod(0o644)
            (run / file).chmod(0)
            runs[file] = run
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            messages = {file: error_message(run) for file, run in runs.items()}
        finally:
            os.seteuid(user)
    for file, text in messages.items():
        assert file in text
        assert "Permission denied" in text
