"""A damaged run folder gives a message on the board, and never HTTP 500."""

import sys
from pathlib import Path

import httpx
import pytest
from board_process import next_event, running_board

sys.path.append(str(Path(__file__).parents[1] / "report"))
from damaged_runs import damaged_files, damaged_values
from sample_runs import Sample


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    top = tmp_path_factory.mktemp("damaged")
    list(damaged_files(top))
    Sample().write(top / "failed", upto=50, state="failed", message="DivergedError: lower eta.")
    with running_board(top) as running:
        yield top, running


def test_a_damaged_file_is_named_in_a_message(board):
    top, running = board
    messages = {}
    for run in sorted(path.name for path in top.iterdir()):
        details = running.get("/api/run", params={"run": run})
        report = running.get(f"/report/{run}", timeout=60)
        assert {details.status_code, report.status_code} <= {200, 400, 404}, run
        if details.status_code == 200:
            messages[run] = details.json()["trouble"] + details.json()["run"]["message"]
        if report.status_code != 200:
            assert len(report.json()["error"]) < 1000
    for kind in ("junk", "list", "nan", "deep", "deeper", "folder", "link", "cut"):
        assert "parties.json" in messages[f"parties-json-{kind}"], kind
        if kind not in ("folder", "link", "nan"):  # A folder without status.json is not a run.
            assert "status.json" in messages[f"status-json-{kind}"], kind
    assert running.get("/api/runs").json()["total"] > 70


@pytest.mark.parametrize(
    "kind", ["junk", "list", "text", "deep", "nan", "object", "folder", "link"]
)
def test_the_event_stream_reports_damaged_rounds(board, kind):
    _, running = board
    with running.events(open=f"rounds-jsonl-{kind}") as events:
        assert "rounds.jsonl" in next_event(events, "damaged")["data"]["message"]


def test_a_wrong_value_never_gives_an_internal_error(tmp_path):
    """The run folder changes while the board is running."""
    report_statuses = set()
    with (
        running_board(tmp_path) as board,
        httpx.Client(base_url=board.address, timeout=60) as client,
    ):
        for number, (what, run) in enumerate(damaged_values(tmp_path)):
            details = client.get("/api/run", params={"run": run.name}).status_code
            runs = client.get("/api/runs").status_code
            assert {details, runs} <= {200, 400}, what
            if number % 23 == 0:
                report = client.get(f"/report/{run.name}")
                report_statuses.add(report.status_code)
                assert report.status_code in (200, 400), what
    assert report_statuses == {200, 400}
