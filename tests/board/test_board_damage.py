"""A damaged run folder gives a message on the board, and never HTTP 500."""

import sys
from pathlib import Path

import httpx
import pytest
from boards import served, until

sys.path.append(str(Path(__file__).parents[1] / "report"))
from damage import single_values, whole_files
from samples import Sample


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    top = tmp_path_factory.mktemp("damaged")
    list(whole_files(top))
    Sample().write(top / "failed", upto=50, state="failed", message="DivergedError: lower eta.")
    with served(top) as made:
        yield top, made


def test_every_whole_file(board):
    top, made = board
    told = {}
    for run in sorted(path.name for path in top.iterdir()):
        one = made.get("/api/run", params={"run": run})
        report = made.get(f"/report/{run}", timeout=60)
        assert {one.status_code, report.status_code} <= {200, 400, 404}, run
        if one.status_code == 200:
            told[run] = one.json()["trouble"] + one.json()["run"]["message"]
        if report.status_code != 200:
            assert len(report.json()["error"]) < 1000
    for kind in ("junk", "list", "nan", "deep", "deeper", "folder", "link", "cut"):
        assert "parties.json" in told[f"parties-json-{kind}"], kind
        if kind not in ("folder", "link", "nan"):  # Where there is no status.json there is no run.
            assert "status.json" in told[f"status-json-{kind}"], kind
    listed = made.get("/api/runs").json()
    assert listed["total"] > 70


@pytest.mark.parametrize(
    "kind", ["junk", "list", "text", "deep", "nan", "object", "folder", "link"]
)
def test_the_stream_tells_of_damaged_rounds(board, kind):
    _, made = board
    with made.events(open=f"rounds-jsonl-{kind}") as events:
        assert "rounds.jsonl" in until(events, "damaged")["data"]["message"]


def test_every_single_value(tmp_path):
    """One address after the other of a folder that changes under the board."""
    seen = set()
    with served(tmp_path) as made, httpx.Client(base_url=made.address, timeout=60) as client:
        for number, (what, run) in enumerate(single_values(tmp_path)):
            one = client.get("/api/run", params={"run": run.name}).status_code
            runs = client.get("/api/runs").status_code
            assert {one, runs} <= {200, 400}, what
            if number % 23 == 0:
                report = client.get(f"/report/{run.name}")
                seen.add(report.status_code)
                assert report.status_code in (200, 400), what
    assert seen == {200, 400}
