"""The list of runs and one run, over a real server."""

import json
import os
import socket
import subprocess
import sys

import pytest
from boards import served

from fedplus.board import index as index_module
from fedplus.board.index import Index
from fedplus.files import write_atomically
from report.samples import Sample, study

BAD = {
    "half": b'{"label": ', "list": b"[]", "bytes": b"\xff\xfe", "deep": b"[" * 100_000,
    "long": b'{"seed": ' + b"9" * 5000 + b"}",
}  # fmt: skip


def changed(run, **fields):
    status = json.loads((run / "status.json").read_bytes()) | fields
    write_atomically(run / "status.json", json.dumps(status).encode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    top = tmp_path_factory.mktemp("list")
    study(top / "study", methods=("fedavg", "fedavg+"), seeds=3, rounds=20)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for name, pid, host in (
        ("killed", gone.pid, socket.gethostname()),
        ("going", os.getpid(), socket.gethostname()),
        ("elsewhere", gone.pid, "another-host"),
    ):
        Sample(method="ditto", rounds=20).write(top / "deep/er/x" / name, upto=10, state="running")
        changed(top / "deep/er/x" / name, pid=pid, host=host)
    for name, content in BAD.items():
        (top / "bad" / name).mkdir(parents=True)
        (top / "bad" / name / "status.json").write_bytes(content)
    Sample(method="rfa", label="odd", rounds=20).write(top / "odd")
    changed(
        top / "odd",
        mean=float("nan"),
        worst="x",
        seed=None,
        label="\ud800<b>",
        round=True,
        rounds=10**400,
    )
    (top / "odd" / "parties.json").write_text('{"names": ["a"], "local": [NaN]}')
    Sample(rounds=20).write(top / "no-parties")
    (top / "no-parties" / "parties.json").write_text("{")
    (top / "a" / "b" / "c" / "d" / "too-deep").mkdir(parents=True)
    (top / "a" / "b" / "c" / "d" / "too-deep" / "status.json").write_text("{}")
    (top / ".hidden").mkdir()
    (top / ".hidden" / "status.json").write_text("{}")
    return top


@pytest.fixture(scope="module")
def board(folder):
    with served(folder) as running:
        yield running


def runs(board, **asked):
    return board.get("/api/runs", params=asked).json()["runs"]


def test_all_runs_are_listed_and_no_other(board):
    found = board.get("/api/runs").json()
    assert found["total"] == found["matching"] == len(found["runs"]) == 16
    first = {run["id"]: run for run in found["runs"]}["study/fedavg-0"]
    status = Sample(method="fedavg", rounds=20)
    line = status.line(20)
    assert first["mean"] == line["personal"]["mean"]
    assert first["worst"] == line["personal"]["worst"]
    assert (first["label"], first["round"], first["seed"]) == ("FedAvg", 20, 0)


@pytest.mark.parametrize(
    ("search", "count"),
    [("fedavg", 6), ("FEDAVG+", 3), ("study avg -1", 2), ("damaged", 5), ("digits", 11),
     ("nothing-like-this", 0), ("  ", 16), ("finished study fedavg+-2", 1)],
)  # fmt: skip
def test_all_words_must_match(board, search, count):
    assert len(runs(board, search=search)) == count


@pytest.mark.parametrize("sort", index_module.SORTS)
@pytest.mark.parametrize("order", ["rising", "falling"])
def test_any_column_sorts_and_what_has_no_value_is_last(board, sort, order):
    values = [run[sort] for run in runs(board, sort=sort, order=order)]
    assert len(values) == 16
    known = [v for v in values if v not in (None, "")]
    assert values[: len(known)] == known
    key = (lambda v: v.casefold()) if isinstance(known[0], str) else None
    assert known == sorted(known, key=key, reverse=order == "falling")


def test_a_killed_run_is_told_apart(board):
    states = {run["id"]: run["state"] for run in runs(board)}
    assert states["deep/er/x/killed"] == "killed"
    assert states["deep/er/x/going"] == "running"
    assert states["deep/er/x/elsewhere"] == "running"


def test_damage_breaks_nothing_else(board):
    found = {run["id"]: run for run in runs(board)}
    for name in BAD:
        assert found[f"bad/{name}"]["state"] == "damaged"
        assert found[f"bad/{name}"]["message"]
    assert found["odd"]["mean"] is found["odd"]["worst"] is found["odd"]["round"] is None
    assert board.get("/api/run?run=odd").json()["parties"]["local"] == [None]
    told = board.get("/api/run?run=no-parties").json()
    assert told["parties"] == {}
    assert "parties.json cannot be read" in told["trouble"]


def test_bad_questions_are_told(board):
    for asked in ("sort=nothing", "page=-1", "page=x", "page=99999999999"):
        answer = board.get(f"/api/runs?{asked}")
        assert answer.status_code == 400
        assert "must be" in answer.json()["error"]
    assert board.get("/api/run?run=absent").status_code == 404
    assert board.get("/api/events?party=x").status_code == 400
    many = {"run": [str(i) for i in range(33)]}
    assert board.get("/api/events", params=many).status_code == 400


def test_pages(tmp_path):
    for i in range(120):
        (tmp_path / f"{i:03}").mkdir()
        (tmp_path / f"{i:03}" / "status.json").write_text(json.dumps({"label": f"{i:03}"}))
    index = Index(tmp_path)
    pages = [index.page("", "label", False, page) for page in range(4)]
    assert [run["label"] for page in pages[:3] for run in page["runs"]] == [
        f"{i:03}" for i in range(120)
    ]
    assert pages[3] == pages[2]
    assert [page["from"] for page in pages[:3]] == [0, 50, 100]


def test_a_status_is_read_only_when_it_changed(tmp_path, monkeypatch):
    read = []
    real = index_module.read_row
    monkeypatch.setattr(index_module, "read_row", lambda *a: read.append(a[0]) or real(*a))
    monkeypatch.setattr(index_module, "SCAN", 0.0)
    monkeypatch.setattr(index_module, "FRESH", 0.0)
    for i in range(5):
        Sample(rounds=20, seed=i).write(tmp_path / str(i))
        (tmp_path / str(i) / "rounds.jsonl").chmod(0)
    index = Index(tmp_path)
    versions = [index.refresh() for _ in range(3)]
    assert len(read) == 5
    assert len(set(versions)) == 1
    changed(tmp_path / "3", mean=0.25)
    index._next_scan = 0.0
    assert index.refresh() != versions[0]
    assert read[5:] == ["3"]
    assert index.row("3").mean == 0.25


def test_a_run_that_is_removed_leaves_the_list(tmp_path):
    run = Sample(rounds=20).write(tmp_path / "run").path
    index = Index(tmp_path)
    assert index.page("", "label", False, 0)["total"] == 1
    (run / "status.json").unlink()
    index._next_scan = index._next_look = 0.0
    assert index.page("", "label", False, 0)["total"] == 0


def test_the_folder_may_be_a_run_itself(tmp_path):
    Sample(rounds=20).write(tmp_path)
    (tmp_path / "report.html").write_text("<p>its report")
    with served(tmp_path) as board:
        assert [run["id"] for run in runs(board)] == ["."]
        assert board.get("/api/run?run=.").json()["run"]["label"] == "FedGeoMed+"
        assert board.get("/report/").text == "<p>its report"


def test_a_report_is_made_where_there_is_none(board):
    answer = board.get("/report/deep/er/x/going")
    assert answer.status_code == 200
    assert "Ditto" in answer.text or "ditto" in answer.text
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert board.get("/report/bad/half").status_code == 400


def test_plotly_is_kept_and_the_rest_is_not(board):
    page = board.get("/").text
    address = page.partition('data-plotly="')[2].partition('"')[0]
    assert address.startswith("/web/plotly.js?v=")
    assert "immutable" in board.get(address).headers["cache-control"]
    assert board.get("/api/runs").headers["cache-control"] == "no-store"
    assert board.get("/web/colours.js").text.startswith("const COLOURS = {")


def test_a_report_older_than_the_run_is_made_anew(tmp_path):
    """As of a run that was resumed."""
    run = Sample().write(tmp_path / "run").path
    (run / "report.html").write_text("<p>of yesterday")
    os.utime(run / "report.html", (1, 1))
    with served(tmp_path) as board:
        assert "of yesterday" not in board.get("/report/run").text
