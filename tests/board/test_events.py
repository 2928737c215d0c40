"""Server-sent events follow files that grow, shrink and become damaged."""

import itertools
import json
import os
import time

import pytest
from board_process import next_event, running_board

from fedplus.board import events as events_module
from fedplus.board.events import EventStream
from fedplus.board.index import Index
from fedplus.board.tail import CHUNK, START, ReadPosition, parse_position, read_new_lines
from report.sample_runs import Sample

RUN = Sample(rounds=100)
COUNT = itertools.count()


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    with running_board(folder) as running:
        running.process.folder = folder
        yield running


@pytest.fixture
def run(board):
    name = f"run {next(COUNT)}"
    return RUN.write(board.process.folder / name, upto=30, state="running").path


def rounds(event):
    return [point[0] for point in event["data"]["points"]]


def test_new_lines_of_a_growing_file_are_sent(board, run):
    with board.events(run=run.name) as events:
        first = next_event(events, "lines")
        assert first["data"]["start"] is True
        line = RUN.line(20)
        assert first["data"]["points"][1][:4] == [
            20, line["personal"]["mean"], line["personal"]["worst"], line["global"]["mean"],
        ]  # fmt: skip
        assert first["data"]["points"][1][4] == pytest.approx(
            sum(line["personal_loss"]) / len(line["personal_loss"])
        )
        start = time.monotonic()
        RUN.write(run, upto=50, state="running")
        more = next_event(events, "lines")
        assert time.monotonic() - start < 3
        assert rounds(more) == [40, 50]
        assert more["data"]["start"] is False


def test_a_changed_status_is_sent(board, run):
    with board.events(run=run.name) as events:
        followed = (row for event in events for row in event["data"].get("followed", ()))
        assert next(followed)["round"] == 30
        RUN.write(run, upto=40)
        row = next(followed)
        assert (row["round"], row["state"]) == (40, "finished")


def test_an_unfinished_line_is_sent_only_when_complete(board, run):
    whole = json.dumps(RUN.line(40)) + "\n"
    with board.events(run=run.name) as events:
        next_event(events, "lines")
        with (run / "rounds.jsonl").open("a") as file:
            file.write(whole[:100])
            file.flush()
            time.sleep(1.2)
            file.write(whole[100:] + whole[:7])
            file.flush()
            assert rounds(next_event(events, "lines")) == [40]


def test_a_file_that_shrinks_is_sent_from_the_start(board, run):
    with board.events(run=run.name) as events:
        assert rounds(next_event(events, "lines")) == [10, 20, 30]
        (run / "rounds.jsonl").write_text(json.dumps(RUN.line(10)) + "\n")
        again = next_event(events, "lines")
        assert again["data"]["start"] is True
        assert rounds(again) == [10]


@pytest.mark.parametrize("way", ["header", "parameter"])
def test_a_reconnect_continues_after_the_last_event(board, run, way):
    with board.events(run=run.name) as events:
        last_id = next_event(events, "lines")["id"]
    RUN.write(run, upto=50, state="running")
    query = {"after": last_id} if way == "parameter" else {}
    headers = {"last-event-id": last_id} if way == "header" else None
    with board.events(run=run.name, headers=headers, **query) as events:
        event = next_event(events, "lines")
        assert rounds(event) == [40, 50]
        assert event["data"]["start"] is False


def test_a_reconnect_after_the_file_was_replaced_starts_again(board, run):
    with board.events(run=run.name) as events:
        last_id = next_event(events, "lines")["id"]
    lines = [json.dumps(Sample(seed=5).line(t)) + "\n" for t in range(10, 80, 10)]
    (run / "rounds.jsonl").write_text("".join(lines))
    with board.events(run=run.name, after=last_id) as events:
        event = next_event(events, "lines")
        assert event["data"]["start"] is True
        assert len(rounds(event)) == 7


@pytest.mark.parametrize("after", ["x", "1-2,3-4", "999999999-00000000", "-1-00000000", ","])
def test_an_invalid_event_id_starts_again(board, run, after):
    with board.events(run=run.name, after=after) as events:
        assert rounds(next_event(events, "lines")) == [10, 20, 30]


def test_the_parties_of_the_open_run_are_sent(board, run):
    with board.events(open=run.name, party=3) as events:
        data = next_event(events, "lines")["data"]
        line = RUN.line(30)
        assert data["parties"]["personal_score"] == line["personal_score"]
        assert data["parties"]["v_norm"] == line["v_norm"]
        names = ("personal_score", "global_score", "personal_loss", "v_norm")
        assert data["party"] == [
            [t, *(RUN.line(t)[name][3] for name in names)] for t in (10, 20, 30)
        ]
    with board.events(open=run.name, party=999) as events:
        assert next_event(events, "lines")["data"]["party"][0][1:] == [None] * 4


@pytest.mark.parametrize(
    "damage", ["{\n", "5\n", '{"round": "x"}\n', "[NaN]\n", "\xff\n", "[" * 99_999 + "\n"]
)
def test_a_damaged_file_is_reported_and_other_runs_are_sent(board, run, damage):
    fine = RUN.write(board.process.folder / "fine", upto=20).path
    with (run / "rounds.jsonl").open("a", encoding="latin-1") as file:
        file.write(damage)
    with board.events(run=[run.name, fine.name]) as events:
        by_run = {}
        while len(by_run) < 2:
            event = next(events)
            if event["event"] != "runs":
                by_run[event["data"]["run"]] = event
        assert by_run[run.name]["event"] == "damaged"
        assert by_run[run.name]["data"]["message"]
        assert rounds(by_run["fine"]) == [10, 20]
        (run / "rounds.jsonl").write_text(json.dumps(RUN.line(10)) + "\n")
        repaired = next_event(events, "lines")
        assert rounds(repaired) == [10]
        assert repaired["data"]["start"] is True


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_does_not_block_the_board(board, run):
    (run / "rounds.jsonl").unlink()
    os.mkfifo(run / "rounds.jsonl")
    (run / "spec.toml").unlink()
    os.mkfifo(run / "spec.toml")
    with board.events(run=run.name) as events:
        assert "plain files only" in next_event(events, "damaged")["data"]["message"]
    assert board.get(f"/report/{run.name}").status_code == 400


def test_a_missing_run_is_reported(board):
    with board.events(run="absent") as events:
        assert next_event(events, "gone")["data"]["run"] == "absent"


def test_unknown_numbers_are_sent_as_null(board, run):
    line = RUN.line(10) | {"personal": {"mean": None}, "global": 3, "personal_loss": [None, 2.0]}
    (run / "rounds.jsonl").write_text(json.dumps(line) + "\n")
    with board.events(open=run.name, party=0) as events:
        assert next_event(events, "lines")["data"]["points"] == [[10, None, None, None, 2.0]]


def test_a_comment_keeps_the_stream_alive(tmp_path, monkeypatch):
    stream = EventStream(Index(tmp_path), [], None, None, "")
    assert stream.new_messages()[0].startswith("event: runs\n")
    assert stream.new_messages() == []
    monkeypatch.setattr(events_module, "KEEP_ALIVE", -1.0)
    assert stream.new_messages() == [": still here\n\n"]


def test_a_long_file_is_read_in_chunks(tmp_path):
    path = tmp_path / "rounds.jsonl"
    size = CHUNK // 3
    with path.open("w") as file:
        for t in range(10):
            file.write(json.dumps({"round": t, "x": "x" * size}) + "\n")
        file.write(json.dumps({"round": 10, "x": "x" * 5 * CHUNK}) + "\n" + '{"round"')
    read, position, has_more = [], START, True
    while has_more:
        new = read_new_lines(path, position)
        assert new.from_start == (position == START)
        read += [line["round"] for line in new.lines]
        position, has_more = new.position, new.has_more
    assert read == list(range(11))
    assert read_new_lines(path, position).lines == []


def test_read_positions_survive_a_round_trip_through_text():
    position = ReadPosition(123, 0xABC)
    assert parse_position(str(position)) == position
    assert parse_position("") == parse_position("12") == START
