"""The list of runs and the details of a run, requested from a real board."""

import json
import os
import socket
import subprocess
import sys

import pytest
from board_process import running_board

from fedplus.board import index as index_module
from fedplus.board.index import Index
from fedplus.files import write_atomically
from report.sample_runs import Sample, study

BAD = {
    "half": b'{"label": ', "list": b"[]", "bytes": b"\xff\xfe", "deep": b"[" * 100_000,
    "long": b'{"seed": ' + b"9" * 5000 + b"}",
}  # fmt: skip


def change_status(run, **fields):
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
        change_status(top / "deep/er/x" / name, pid=pid, host=host)
    for name, content in BAD.items():
        (top / "bad" / name).mkdir(parents=True)
        (top / "bad" / name / "status.json").write_bytes(content)
    Sample(method="rfa", label="odd", rounds=20).write(top / "odd")
    change_status(
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
    with running_board(folder) as running:
        yield running


def runs(board, **query):
    return board.get("/api/runs", params=query).json()["runs"]


def test_exactly_the_runs_in_the_folder_are_listed(board):
    page = board.get("/api/runs").json()
    assert page["total"] == page["matching"] == len(page["runs"]) == 16
    first = {run["id"]: run for run in page["runs"]}["study/fedavg-0"]
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
def test_all_words_of_a_search_must_match(board, search, count):
    assert len(runs(board, search=search)) == count


@pytest.mark.parametrize("sort", index_module.SORTS)
@pytest.mark.parametrize("order", ["rising", "falling"])
def test_runs_without_a_value_come_last_in_every_sort_order(board, sort, order):
    values = [run[sort] for run in runs(board, sort=sort, order=order)]
    assert len(values) == 16
    known = [v for v in values if v not in (None, "")]
    assert values[: len(known)] == known
    key = (lambda v: v.casefold()) if isinstance(known[0], str) else None
    assert known == sorted(known, key=key, reverse=order == "falling")


def test_a_killed_run_is_distinguished_from_a_running_one(board):
    states = {run["id"]: run["state"] for run in runs(board)}
    assert states["deep/er/x/killed"] == "killed"
    assert states["deep/er/x/going"] == "running"
    assert states["deep/er/x/elsewhere"] == "running"


def test_damaged_runs_do_not_affect_other_runs(board):
    by_id = {run["id"]: run for run in runs(board)}
    for name in BAD:
        assert by_id[f"bad/{name}"]["state"] == "damaged"
        assert by_id[f"bad/{name}"]["message"]
    assert by_id["odd"]["mean"] is by_id["odd"]["worst"] is by_id["odd"]["round"] is None
    assert board.get("/api/run?run=odd").json()["parties"]["local"] == [None]
    details = board.get("/api/run?run=no-parties").json()
    assert details["parties"] == {}
    assert "parties.json cannot be read" in details["trouble"]


def test_invalid_requests_are_rejected(board):
    for query in ("sort=nothing", "page=-1", "page=x", "page=99999999999"):
        response = board.get(f"/api/runs?{query}")
        assert response.status_code == 400
        assert "must be" in response.json()["error"]
    assert board.get("/api/run?run=absent").status_code == 404
    assert board.get("/api/events?party=x").status_code == 400
    many = {"run": [str(i) for i in range(33)]}
    assert board.get("/api/events", params=many).status_code == 400


def test_the_list_is_split_into_pages_of_50(tmp_path):
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


def test_a_status_is_read_again_only_after_a_change(tmp_path, monkeypatch):
    read = []
    read_row = index_module.read_row
    monkeypatch.setattr(index_module, "read_row", lambda *a: read.append(a[0]) or read_row(*a))
    monkeypatch.setattr(index_module, "SCAN_INTERVAL", 0.0)
    monkeypatch.setattr(index_module, "CHECK_INTERVAL", 0.0)
    for i in range(5):
        Sample(rounds=20, seed=i).write(tmp_path / str(i))
        (tmp_path / str(i) / "rounds.jsonl").chmod(0)
    index = Index(tmp_path)
    versions = [index.refresh() for _ in range(3)]
    assert len(read) == 5
    assert len(set(versions)) == 1
    change_status(tmp_path / "3", mean=0.25)
    index._next_scan = 0.0
    assert index.refresh() != versions[0]
    assert read[5:] == ["3"]
    assert index.row("3").mean == 0.25


def test_a_removed_run_disappears_from_the_list(tmp_path):
    run = Sample(rounds=20).write(tmp_path / "run").path
    index = Index(tmp_path)
    assert index.page("", "label", False, 0)["total"] == 1
    (run / "status.json").unlink()
    index._next_scan = index._next_check = 0.0
    assert index.page("", "label", False, 0)["total"] == 0


def test_the_board_can_show_a_single_run_folder(tmp_path):
    Sample(rounds=20).write(tmp_path)
    (tmp_path / "report.html").write_text("<p>its report")
    with running_board(tmp_path) as board:
        assert [run["id"] for run in runs(board)] == ["."]
        assert board.get("/api/run?run=.").json()["run"]["label"] == "FedGeoMed+"
        assert board.get("/report/").text == "<p>its report"


def test_a_missing_report_is_rendered_on_request(board):
    response = board.get("/report/deep/er/x/going")
    assert response.status_code == 200
    assert "Ditto" in response.text or "ditto" in response.text
    assert response.headers["content-security-policy"].startswith("sandbox")
    assert board.get("/report/bad/half").status_code == 400


def test_only_plotly_is_cached(board):
    page = board.get("/").text
    address = page.partition('data-plotly="')[2].partition('"')[0]
    assert address.startswith("/web/plotly.js?v=")
    assert "immutable" in board.get(address).headers["cache-control"]
    assert board.get("/api/runs").headers["cache-control"] == "no-store"
    assert board.get("/web/colours.js").text.startswith("const COLOURS = {")


def test_a_report_older_than_the_run_is_rendered_again(tmp_path):
    """This happens after a run was resumed."""
    run = Sample().write(tmp_path / "run").path
    (run / "report.html").write_text("<p>of yesterday")
    os.utime(run / "report.html", (1, 1))
    with running_board(tmp_path) as board:
        assert "of yesterday" not in board.get("/report/run").text
