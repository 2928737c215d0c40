"""Server-sent events, of files that really grow, shrink and break."""

import itertools
import json
import os
import time

import pytest
from boards import served, until

from fedplus.board import events as events_module
from fedplus.board.events import Stream
from fedplus.board.index import Index
from fedplus.board.tail import CHUNK, START, ReadPosition, parse_position, read_new_lines
from report.samples import Sample

RUN = Sample(rounds=100)
COUNT = itertools.count()


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    with served(folder) as running:
        running.process.folder = folder
        yield running


@pytest.fixture
def run(board):
    name = f"run {next(COUNT)}"
    return RUN.write(board.process.folder / name, upto=30, state="running").path


def rounds(event):
    return [point[0] for point in event["data"]["points"]]


def test_a_growing_file_is_told_line_by_line(board, run):
    with board.events(run=run.name) as events:
        first = until(events, "lines")
        assert first["data"]["start"] is True
        line = RUN.line(20)
        assert first["data"]["points"][1][:4] == [
            20, line["personal"]["mean"], line["personal"]["worst"], line["global"]["mean"],
        ]  # fmt: skip
        assert first["data"]["points"][1][4] == pytest.approx(
            sum(line["personal_loss"]) / len(line["personal_loss"])
        )
        begun = time.monotonic()
        RUN.write(run, upto=50, state="running")
        more = until(events, "lines")
        assert time.monotonic() - begun < 3
        assert rounds(more) == [40, 50]
        assert more["data"]["start"] is False


def test_the_list_is_told_to_have_changed(board, run):
    with board.events(run=run.name) as events:
        followed = (row for event in events for row in event["data"].get("followed", ()))
        assert next(followed)["round"] == 30
        RUN.write(run, upto=40)
        told = next(followed)
        assert (told["round"], told["state"]) == (40, "finished")


def test_a_half_written_line_waits(board, run):
    whole = json.dumps(RUN.line(40)) + "\n"
    with board.events(run=run.name) as events:
        until(events, "lines")
        with (run / "rounds.jsonl").open("a") as file:
            file.write(whole[:100])
            file.flush()
            time.sleep(1.2)
            file.write(whole[100:] + whole[:7])
            file.flush()
            assert rounds(until(events, "lines")) == [40]


def test_a_file_that_shrinks_starts_anew(board, run):
    with board.events(run=run.name) as events:
        assert rounds(until(events, "lines")) == [10, 20, 30]
        (run / "rounds.jsonl").write_text(json.dumps(RUN.line(10)) + "\n")
        again = until(events, "lines")
        assert again["data"]["start"] is True
        assert rounds(again) == [10]


@pytest.mark.parametrize("way", ["header", "parameter"])
def test_a_reconnect_goes_on_where_it_was(board, run, way):
    with board.events(run=run.name) as events:
        reached = until(events, "lines")["id"]
    RUN.write(run, upto=50, state="running")
    asked = {"after": reached} if way == "parameter" else {}
    headers = {"last-event-id": reached} if way == "header" else None
    with board.events(run=run.name, headers=headers, **asked) as events:
        event = until(events, "lines")
        assert rounds(event) == [40, 50]
        assert event["data"]["start"] is False


def test_a_reconnect_after_another_file_came_starts_anew(board, run):
    with board.events(run=run.name) as events:
        reached = until(events, "lines")["id"]
    lines = [json.dumps(Sample(seed=5).line(t)) + "\n" for t in range(10, 80, 10)]
    (run / "rounds.jsonl").write_text("".join(lines))
    with board.events(run=run.name, after=reached) as events:
        event = until(events, "lines")
        assert event["data"]["start"] is True
        assert len(rounds(event)) == 7


@pytest.mark.parametrize("after", ["x", "1-2,3-4", "999999999-00000000", "-1-00000000", ","])
def test_an_id_that_says_nothing_starts_anew(board, run, after):
    with board.events(run=run.name, after=after) as events:
        assert rounds(until(events, "lines")) == [10, 20, 30]


def test_the_open_run_tells_its_parties(board, run):
    with board.events(open=run.name, party=3) as events:
        data = until(events, "lines")["data"]
        line = RUN.line(30)
        assert data["parties"]["personal_score"] == line["personal_score"]
        assert data["parties"]["v_norm"] == line["v_norm"]
        names = ("personal_score", "global_score", "personal_loss", "v_norm")
        assert data["party"] == [
            [t, *(RUN.line(t)[name][3] for name in names)] for t in (10, 20, 30)
        ]
    with board.events(open=run.name, party=999) as events:
        assert until(events, "lines")["data"]["party"][0][1:] == [None] * 4


@pytest.mark.parametrize(
    "damage", ["{\n", "5\n", '{"round": "x"}\n', "[NaN]\n", "\xff\n", "[" * 99_999 + "\n"]
)
def test_a_damaged_file_is_told_and_harms_no_other(board, run, damage):
    fine = RUN.write(board.process.folder / "fine", upto=20).path
    with (run / "rounds.jsonl").open("a", encoding="latin-1") as file:
        file.write(damage)
    with board.events(run=[run.name, fine.name]) as events:
        told = {}
        while len(told) < 2:
            event = next(events)
            if event["event"] != "runs":
                told[event["data"]["run"]] = event
        assert told[run.name]["event"] == "damaged"
        assert told[run.name]["data"]["message"]
        assert rounds(told["fine"]) == [10, 20]
        (run / "rounds.jsonl").write_text(json.dumps(RUN.line(10)) + "\n")
        mended = until(events, "lines")
        assert rounds(mended) == [10]
        assert mended["data"]["start"] is True


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
def test_a_pipe_is_not_waited_for(board, run):
    (run / "rounds.jsonl").unlink()
    os.mkfifo(run / "rounds.jsonl")
    (run / "spec.toml").unlink()
    os.mkfifo(run / "spec.toml")
    with board.events(run=run.name) as events:
        assert "plain files only" in until(events, "damaged")["data"]["message"]
    assert board.get(f"/report/{run.name}").status_code == 400


def test_a_run_that_is_not_there_is_told(board):
    with board.events(run="absent") as events:
        assert until(events, "gone")["data"]["run"] == "absent"


def test_numbers_that_are_none_are_null(board, run):
    line = RUN.line(10) | {"personal": {"mean": None}, "global": 3, "personal_loss": [None, 2.0]}
    (run / "rounds.jsonl").write_text(json.dumps(line) + "\n")
    with board.events(open=run.name, party=0) as events:
        assert until(events, "lines")["data"]["points"] == [[10, None, None, None, 2.0]]


def test_a_comment_keeps_the_stream_alive(tmp_path, monkeypatch):
    stream = Stream(Index(tmp_path), [], None, None, "")
    assert stream.news()[0].startswith("event: runs\n")
    assert stream.news() == []
    monkeypatch.setattr(events_module, "KEEP_ALIVE", -1.0)
    assert stream.news() == [": still here\n\n"]


def test_a_long_file_comes_in_pieces(tmp_path):
    path = tmp_path / "rounds.jsonl"
    size = CHUNK // 3
    with path.open("w") as file:
        for t in range(10):
            file.write(json.dumps({"round": t, "x": "x" * size}) + "\n")
        file.write(json.dumps({"round": 10, "x": "x" * 5 * CHUNK}) + "\n" + '{"round"')
    seen, at, more = [], START, True
    while more:
        news = read_new_lines(path, at)
        assert news.anew == (at == START)
        seen += [line["round"] for line in news.lines]
        at, more = news.position, news.more
    assert seen == list(range(11))
    assert read_new_lines(path, at).lines == []


def test_positions_are_read_back():
    at = ReadPosition(123, 0xABC)
    assert parse_position(str(at)) == at
    assert parse_position("") == parse_position("12") == START
