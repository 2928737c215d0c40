"""Downloads from a real server on loopback that breaks in all the ways servers break."""

import hashlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from loopback import serving

from fedplus.data.files import DataError, File, Source, download, load_source, search_path
from terminal import seen

BODY = np.random.default_rng(0).bytes(50_000)
CHECKSUM = "sha256:" + hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FEDPLUS_DATA", raising=False)
    monkeypatch.delenv("FEDPLUS_OFFLINE", raising=False)
    monkeypatch.setattr(download, "PAUSE", 0.0)
    return search_path.cache_folder()


@pytest.fixture
def server():
    with serving(BODY) as one:
        yield one


def source(*servers, checksum=CHECKSUM):
    file = File("some/file.bin", checksum, tuple(s.url() for s in servers))
    return (Source((file,), lambda path: path.read_bytes()),)


def left_behind(cache):
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def test_a_good_file_is_fetched_once(cache, server):
    assert load_source(source(server)) == BODY
    assert load_source(source(server)) == BODY
    assert server.ranges == [None]
    assert left_behind(cache) == ["file.bin"]


def test_a_server_that_dies_half_way_is_asked_for_the_rest_only(cache, server):
    server.die_after = [20_000, 10_000]
    assert load_source(source(server)) == BODY
    assert server.ranges == [None, "bytes=20000-", "bytes=30000-"]
    assert left_behind(cache) == ["file.bin"]


def test_what_had_arrived_serves_the_next_call(cache, server):
    server.die_after = [7_000, 0, 0]
    with pytest.raises(DataError, match="the connection broke after 7000 bytes"):
        load_source(source(server))
    assert left_behind(cache) == ["file.bin.part"]
    server.ranges.clear()
    assert load_source(source(server)) == BODY
    assert server.ranges == ["bytes=7000-"]


def test_a_server_that_cannot_go_on_starts_over(cache, server):
    server.die_after, server.ranges_work = [20_000], False
    assert load_source(source(server)) == BODY


@pytest.mark.parametrize("body", [BODY[:30_000], BODY[:-1] + b"x", BODY + b"more", b""])
def test_a_truncated_or_wrong_file_is_never_kept(cache, server, body):
    server.body = body
    with pytest.raises(DataError, match=r"some/file\.bin must be there.*hash") as error:
        load_source(source(server))
    assert "\n" not in str(error.value)
    assert CHECKSUM in str(error.value)
    assert left_behind(cache) == []


def test_a_part_of_another_version_does_not_spoil_the_file(cache, server):
    part = cache / "some" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"old" * 1000)
    assert load_source(source(server)) == BODY
    part.write_bytes(b"longer than the file" * 5000)
    (cache / "some" / "file.bin").unlink()
    assert load_source(source(server)) == BODY
    assert left_behind(cache) == ["file.bin"]


def test_a_mirror_serves_where_the_first_address_fails(cache, server):
    with serving(b"wrong") as wrong, serving(BODY) as broken:
        broken.status = 503
        assert load_source(source(wrong, broken, server)) == BODY
        assert len(wrong.ranges) == len(broken.ranges) == len(server.ranges) == 1


def test_a_damaged_file_in_the_cache_is_fetched_anew(cache, server):
    load_source(source(server))
    (cache / "some" / "file.bin").write_bytes(b"damaged")
    assert load_source(source(server)) == BODY


def test_an_older_file_is_replaced_only_by_a_good_one(cache, server):
    load_source(source(server))
    newer = BODY[::-1]
    wanted = "sha256:" + hashlib.sha256(newer).hexdigest()
    with pytest.raises(DataError):
        load_source(source(server, checksum=wanted))
    assert (cache / "some" / "file.bin").read_bytes() == BODY
    server.body = newer
    assert load_source(source(server, checksum=wanted)) == newer


def test_offline_and_absent_says_which_file_from_where_and_where_to(cache, server, monkeypatch):
    monkeypatch.setenv("FEDPLUS_OFFLINE", "1")
    with pytest.raises(DataError) as error:
        load_source(source(server))
    told = str(error.value)
    for part in ("some/file.bin", server.url(), str(cache / "some/file.bin"), "FEDPLUS_DATA"):
        assert part in told
    assert "\n" not in told
    assert server.ranges == []


def test_nobody_answers(cache, server):
    gone = source(server)
    server.status = 404
    with pytest.raises(DataError, match="404"):
        load_source(gone)
    closed = (Source((File("a", CHECKSUM, ("http://127.0.0.1:9/a",)),), lambda path: path),)
    with pytest.raises(DataError, match=r"127\.0\.0\.1:9"):
        load_source(closed)


def test_a_file_that_nobody_serves_has_to_be_placed(cache):
    by_hand = (Source((File("a.csv", origin="the hospital's archive"),), lambda path: path),)
    with pytest.raises(
        DataError, match=r"cannot be downloaded\. It comes from the hospital's arch"
    ):
        load_source(by_hand)
    cache.mkdir(parents=True)
    (cache / "a.csv").write_text("1")
    assert load_source(by_hand) == cache / "a.csv"


def test_the_users_folder_comes_first_and_is_checked_but_never_written(
    cache, server, tmp_path, monkeypatch
):
    folder = tmp_path / "mine"
    (folder / "some").mkdir(parents=True)
    monkeypatch.setenv("FEDPLUS_DATA", str(folder))
    (folder / "some" / "file.bin").write_bytes(BODY)
    assert load_source(source(server)) == BODY
    assert server.ranges == []
    (folder / "some" / "file.bin").write_bytes(b"damaged")
    with pytest.raises(DataError, match="must have the checksum"):
        load_source(source(server))
    assert (folder / "some" / "file.bin").read_bytes() == b"damaged"
    monkeypatch.setenv("FEDPLUS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="FEDPLUS_DATA must be a folder that is there"):
        load_source(source(server))


def test_of_two_sources_the_one_that_is_there_is_read(cache, server):
    here = Source((File("here.bin"),), lambda path: "here")
    away = Source((File("away.bin", CHECKSUM, (server.url(),)),), lambda path: "away")
    assert load_source((here, away)) == "away"
    (cache / "here.bin").write_bytes(b"x")
    assert load_source((here, away)) == "here"


def test_killed_while_downloading_goes_on_from_there(cache, server):
    """A real process, a real SIGKILL."""
    server.body = body = BODY * 20
    checksum = "sha256:" + hashlib.sha256(body).hexdigest()
    server.pause = 0.001
    script = (
        "from fedplus.data.files import File, Source, obtain\n"
        f"file = File('some/file.bin', {checksum!r}, ({server.url()!r},))\n"
        "obtain((Source((file,), lambda path: path),))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], env=dict(os.environ))
    part = cache / "some" / "file.bin.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size > 0) and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    arrived = part.stat().st_size
    assert 0 < arrived < len(body)
    server.pause = 0.0
    assert load_source(source(server, checksum=checksum)) == body
    assert server.ranges[-1] == f"bytes={arrived}-"
    assert left_behind(cache) == ["file.bin"]


@pytest.mark.parametrize("on_terminal", [True, False])
def test_a_person_sees_how_far_it_is_and_a_pipe_sees_nothing(cache, server, on_terminal):
    program = (
        "from fedplus.data.files import File, Source, obtain\n"
        f"file = File('some/file.bin', {CHECKSUM!r}, ({server.url()!r},))\n"
        "obtain((Source((file,), lambda path: path),))\n"
    )
    text = seen(program, on_terminal)
    if on_terminal:
        for what in ("file.bin", "50.0/50.0 kB"):
            assert what in text
    else:
        assert text == ""
