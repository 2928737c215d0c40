"""Every command and every documented error message, each in a separate process."""

import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from command import COMMAND, environment, fedplus, refused
from fedplus import __version__
from fedplus.cli.app import COMMANDS
from fedplus.cli.methods import describe_method
from fedplus.methods import METHODS
from terminal import seen

SMALL = ["--set", "parties=4", "--set", "steps=1", "--rounds", "2"]
RUN = ["run", "digits-robust", "-m", "fedavg", "--no-local", *SMALL]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return the folder of a small comparison, and its output and errors."""
    folder = tmp_path_factory.mktemp("study")
    out, err = fedplus(
        "compare", "digits-robust", "--methods", "fedavg,fedgeomed+", "--seeds", "3", *SMALL,
        "--out", folder / "here",
    )  # fmt: skip
    return folder / "here", out, err


def test_compare_prints_a_table_and_writes_all_formats(study):
    folder, out, err = study
    assert err == ""
    for label in ("majority class", "local SGD", "FedAvg", "FedGeoMed+"):
        assert label in out
    assert "mean ± s.d. over 3 seeds" in " ".join(out.split())
    assert str(folder / "report.html") in out
    assert "\\toprule" in (folder / "table.tex").read_text()
    assert (folder / "table.csv").read_text().count("\n") == 5
    assert (folder / "table.md").read_text().count("\n| ") >= 5
    assert len([p for p in folder.iterdir() if p.is_dir()]) == 9
    assert b"Plotly" in (folder / "report.html").read_bytes()


def test_resume_retrains_only_a_deleted_run(study):
    """The run's folder was deleted; the new one has the same bytes."""
    import shutil

    folder, out, _ = study
    stamps = {p: (p / "status.json").stat().st_mtime_ns for p in folder.glob("*-*")}
    before = (folder / "fedavg-1" / "rounds.jsonl").read_bytes()
    shutil.rmtree(folder / "fedavg-1")
    again, _ = fedplus("run", "--resume", folder)
    assert again == out
    assert (folder / "fedavg-1" / "rounds.jsonl").read_bytes() == before
    changed = [
        p.name for p, stamp in stamps.items() if (p / "status.json").stat().st_mtime_ns != stamp
    ]
    assert changed == ["fedavg-1"]


def test_report_of_several_runs(study, tmp_path):
    folder, _, _ = study
    out, _ = fedplus(
        "report", folder / "fedavg-0", folder / "fedavg-2", "--out", tmp_path / "r.html"
    )
    assert out.strip() == str(tmp_path / "r.html")
    out, _ = fedplus("report", folder, "--json")
    assert len(json.loads(out)["runs"]) == 9
    assert "given with several RUNs" in refused("report", folder / "fedavg-0", folder / "fedavg-1")
    assert "must be a run folder" in refused("report", tmp_path)
    assert "must be a run folder" in refused("report", tmp_path / "nowhere")
    (folder / "fedavg-0" / "parties.json").rename(tmp_path / "moved")
    assert "cannot be read" in refused("report", folder / "fedavg-0")
    (tmp_path / "moved").rename(folder / "fedavg-0" / "parties.json")


def test_run_prints_a_table_and_the_path_of_its_report(tmp_path):
    out, err = fedplus(*RUN, cwd=tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-digits-robust-fedavg", folder.name)
    assert f"runs/{folder.name}/report.html" in out
    assert "FedAvg" in out
    assert err == ""
    assert {p.name for p in folder.iterdir()} == {
        "spec.toml", "env.json", "status.json", "parties.json", "rounds.jsonl", "checkpoint", "models",
        "model.json", "metrics.json", "model-card.md",
        "global.safetensors", "report.html",
    }  # fmt: skip


def test_json_is_one_document_and_nothing_else(tmp_path):
    out, err = fedplus(*RUN, "--seeds", "2", "--json", "--out", tmp_path / "r")
    report = json.loads(out)
    assert [run["seed"] for run in report["runs"]] == [0, 1]
    assert report["table"][0]["label"] == "FedAvg"
    assert err == ""


def test_run_trains_on_a_folder_with_a_csv_file_per_party(tmp_path):
    data = tmp_path / "hospitals"
    data.mkdir()
    for name in ("north", "south"):
        rows = "\n".join(f"{i / 10},{(i * 7) % 5},{i % 2}" for i in range(40))
        (data / f"{name}.csv").write_text(f"age,dose,ill\n{rows}\n")
    fedplus(
        "run",
        data,
        "-m",
        "fedavg+",
        "--set",
        "target=ill",
        "--rounds",
        "2",
        "--out",
        tmp_path / "r",
    )
    assert {p.name for p in (tmp_path / "r" / "models").iterdir()} == {
        "north.safetensors", "south.safetensors",
    }  # fmt: skip


REFUSED = {
    "no target": (["run"], "fedplus run digits-robust --method fedgeomed+"),
    "no method": (["run", "digits-robust"], "--method must be one of"),
    "misspelt data": (["run", "digits-robst", "-m", "local"], "Did you mean digits-robust?"),
    "misspelt method": (["run", "digits-robust", "-m", "fedavgg"], "Did you mean fedavg?"),
    "misspelt setting": ([*RUN, "--set", "coohrt=3"], "Did you mean cohort?"),
    "misspelt command": (["comparee", "x"], "Did you mean compare?"),
    "misspelt in a list": (["compare", "digits-robust", "--methods", "fedavg,dito"], "ditto?"),
    "not key=value": ([*RUN, "--set", "eta"], "KEY=VALUE"),
    "no boolean": ([*RUN, "--set", "keep_optimizer_state=no"], "must be true or false, got 'no'"),
    "unknown table": ([*RUN, "--set", "trian.rounds=3"], "one of the tables"),
    "too many parties": ([*RUN, "--set", "cohort=50"], "from 1 to 4"),
    "no seeds": ([*RUN, "--seeds", "0"], "--seeds must be a whole number ≥ 1"),
    "a negative seed": ([*RUN, "--seed", "-1"], "--seed must be a whole number ≥ 0"),
    "rounds that are no number": (["run", "digits-robust", "-m", "local", "--rounds", "x"], "integer"),
    "no such file": (["run", "none.toml"], "none.toml cannot be read: No such file"),
    "resume and more": (["run", "digits-robust", "--resume", "x"], "--resume must be given alone"),
    "resume nothing": (["run", "--resume", "nowhere"], "--resume must be a run or study folder"),
    "a folder that cannot be": ([*RUN, "--out", "/proc/nothing"], "--out must be a folder that can be"),
    "board without a folder": (["board", "nowhere"], "nowhere"),
    "board for others": (["board", ".", "--host", "0.0.0.0"], "token"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_reported_in_one_line_and_writes_no_file(name, tmp_path):
    arguments, expected = REFUSED[name]
    assert expected in refused(*arguments, cwd=tmp_path)
    left = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert left == []


def test_a_folder_that_is_not_empty_is_refused_and_not_changed(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    message = refused(*RUN, "--out", tmp_path)
    assert "new or empty" in message
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_debug_shows_the_traceback(tmp_path):
    _, err = fedplus("--debug", "run", "digits-robust", "-m", "x", status=1)
    assert "Traceback" in err


@pytest.mark.parametrize("command", ["run", "compare", "report", "board", "data", "methods"])
def test_help_contains_an_example(command):
    out, _ = fedplus(command, "--help")
    assert f"fedplus {command} " in out.replace("Usage: fedplus", "")


def test_a_full_disk_is_reported_and_no_file_is_half_written(tmp_path):
    """The run writes to a tiny file system; the test is skipped if none can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        message = refused(*RUN, "--out", disk / "run", status=1)
        assert "No space left on device" in message
        names = [p.name for p in disk.rglob("*")]
        assert not [name for name in names if name.endswith(".tmp")]
        assert "report.html" not in names
        for line in (disk / "run" / "rounds.jsonl").read_text().splitlines():
            json.loads(line)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_read_only_folder_is_refused(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("cannot mount a read-only file system here")
    try:
        assert "Read-only file system" in refused(*RUN, "--out", disk / "run")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("arguments", [["methods", "--json"], ["methods"], ["data", "list"], []])
def test_a_closed_pipe_ends_quietly(arguments):
    """This happens in ``fedplus methods | head -1``."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode in (0, 1)


def test_output_is_coloured_only_on_a_terminal_without_no_color(study):
    """A pipe never gets colours."""
    folder, out, _ = study
    assert "\x1b[" not in out
    program = (
        "import sys; sys.stdout = sys.stderr; from rich.console import Console;"
        "from pathlib import Path; from fedplus.experiments.run_folder import find_run_folders;"
        "from fedplus.report import table_formats, tables;"
        f"Console(file=sys.stderr).print(table_formats.terminal_table(tables.comparison_table(find_run_folders([Path({str(folder)!r})]))))"
    )
    coloured = seen(program, on_terminal=True)
    assert "\x1b[1m" in coloured
    assert "\x1b[3" not in seen(program, on_terminal=True, NO_COLOR="1")


def test_progress_shows_the_score_on_a_terminal(tmp_path):
    program = (
        "import sys; from fedplus.cli import main;"
        f"main({[*RUN, '--seeds', '2', '--json', '--out', str(tmp_path / 'r')]!r})"
    )
    text = seen(program, on_terminal=True)
    assert "FedAvg: 0." in text
    assert "4/4" in text


def test_the_shell_can_complete_names():
    """The line in docs/command-line.md defines a function that bash calls with the command so far."""
    script = Path(sys.executable).with_name("fedplus")
    line = 'eval "$(_FEDPLUS_COMPLETE=bash_source fedplus)"'
    assert line in (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    program = f"""
        PATH={script.parent}:$PATH; {line}
        COMP_WORDS=(fedplus run digits-); COMP_CWORD=2
        _fedplus_completion fedplus; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, env=environment(), check=False
    )
    assert {"digits-robust", "digits-personal"} <= set(done.stdout.split()), done.stderr


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS), ["data", "card"]])
def test_help_has_neither_escapes_nor_shortened_sentences(command):
    """Typer once printed ``\\[required]``, and Click shortens a command's first sentence."""
    out, _ = fedplus(*command, "--help")
    assert "\\" not in out
    assert not re.search(r"[a-z]\.\.\.$", out, re.MULTILINE)


def test_the_version_is_that_of_the_package():
    assert fedplus("--version")[0] == f"fedplus {__version__}\n"


def test_methods_describes_every_setting_of_every_method():
    """``Args`` of the docstring has an entry for each parameter, and the command prints it."""
    records = json.loads(fedplus("methods", "--json")[0])
    assert [record["name"] for record in records] == list(METHODS)
    for record in records:
        assert set(record["settings"]) == set(METHODS[record["name"]].settings)
        for setting in record["settings"].values():
            assert setting["meaning"]
    out, _ = fedplus("methods", "ditto")
    assert "eta (required in Python; on the command line 0.02" in out
    assert "aggregate (default: the method's own)" in out


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_described_as_the_shell_takes_it(name):
    """Defaults are TOML, and there is neither Python's None nor markup."""
    text = describe_method(METHODS[name], 100)
    for python in ("None", "True)", "False)", "('", "{'", "``"):
        assert python not in text
    for line in re.findall(r"^  \w+ \(default: (.*)\)$", text, re.MULTILINE):
        assert line == "the method's own" or tomllib.loads(f"value = {line}")


def test_the_cost_of_a_round_is_a_phrase_with_the_unit():
    for name, sent in (
        ("fedper", "the body of the model per round"), ("lg-fedavg", "the head of the model per round"),
        ("fedfomo", "1 model per round, and receives m"), ("scaffold", "2 models per round"),
        ("layers", "1 model per round, without private layers"), ("l2gd", "p · E models per round"),
    ):  # fmt: skip
        assert f"a party sends:  {sent}\n" in describe_method(METHODS[name], 100)


@pytest.mark.parametrize(("text", "value"), [("False", "false"), ("True", "true")])
def test_set_takes_booleans_as_python_and_toml_write_them(text, value, tmp_path):
    fedplus(*RUN, "--set", f"keep_optimizer_state={text}", "--out", tmp_path / "r")
    assert f"keep_optimizer_state = {value} }}" in (tmp_path / "r" / "spec.toml").read_text()


def test_the_board_serves_and_ends_on_ctrl_c(study):
    folder, _, _ = study
    process = subprocess.Popen(
        [*COMMAND, "board", str(folder), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment(PYTHONUNBUFFERED="1"),
    )  # fmt: skip
    line = process.stdout.readline()
    assert "http://127.0.0.1:" in line
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "Traceback" not in err
