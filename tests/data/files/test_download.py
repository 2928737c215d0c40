"""Downloads from a local HTTP server that fails in many ways (``data/files/download.py``)."""

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pooch
import pytest
from faulty_http_server import run_server

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
    with run_server(BODY) as server:
        yield server


def source(*servers, checksum=CHECKSUM):
    file = File("some/file.bin", checksum, tuple(s.url() for s in servers))
    return (Source((file,), lambda path: path.read_bytes()),)


def cached_files(cache):
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


@pytest.mark.parametrize("chosen", [None, "elsewhere"])
def test_the_cache_folder_is_the_one_that_pooch_chooses(monkeypatch, tmp_path, chosen):
    """It is computed without pooch, which is an extra."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if chosen:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / chosen))
    assert search_path.cache_folder() == pooch.os_cache("fedplus")


def test_a_good_file_is_fetched_once(cache, server):
    assert load_source(source(server)) == BODY
    assert load_source(source(server)) == BODY
    assert server.ranges == [None]
    assert cached_files(cache) == ["file.bin"]


def test_an_interrupted_download_requests_only_the_rest(cache, server):
    server.die_after = [20_000, 10_000]
    assert load_source(source(server)) == BODY
    assert server.ranges == [None, "bytes=20000-", "bytes=30000-"]
    assert cached_files(cache) == ["file.bin"]


def test_the_next_call_resumes_a_partial_download(cache, server):
    server.die_after = [7_000, 0, 0]
    with pytest.raises(DataError, match="the connection broke after 7000 bytes"):
        load_source(source(server))
    assert cached_files(cache) == ["file.bin.part"]
    server.ranges.clear()
    assert load_source(source(server)) == BODY
    assert server.ranges == ["bytes=7000-"]


def test_a_download_starts_over_if_the_server_cannot_resume(cache, server):
    server.die_after, server.supports_ranges = [20_000], False
    assert load_source(source(server)) == BODY


@pytest.mark.parametrize("body", [BODY[:30_000], BODY[:-1] + b"x", BODY + b"more", b""])
def test_a_truncated_or_wrong_file_is_never_kept(cache, server, body):
    server.body = body
    with pytest.raises(DataError, match=r"some/file\.bin was not found.*hash") as error:
        load_source(source(server))
    assert "\n" not in str(error.value)
    assert CHECKSUM in str(error.value)
    assert cached_files(cache) == []


def test_a_partial_file_of_another_version_does_not_damage_the_download(cache, server):
    part = cache / "some" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"old" * 1000)
    assert load_source(source(server)) == BODY
    part.write_bytes(b"longer than the file" * 5000)
    (cache / "some" / "file.bin").unlink()
    assert load_source(source(server)) == BODY
    assert cached_files(cache) == ["file.bin"]


def test_a_mirror_is_used_if_the_first_address_fails(cache, server):
    with run_server(b"wrong") as wrong, run_server(BODY) as broken:
        broken.status = 503
        assert load_source(source(wrong, broken, server)) == BODY
        assert len(wrong.ranges) == len(broken.ranges) == len(server.ranges) == 1


def test_a_damaged_file_in_the_cache_is_downloaded_again(cache, server):
    load_source(source(server))
    (cache / "some" / "file.bin").write_bytes(b"damaged")
    assert load_source(source(server)) == BODY


def test_an_older_file_is_replaced_only_by_a_valid_one(cache, server):
    load_source(source(server))
    newer = BODY[::-1]
    checksum = "sha256:" + hashlib.sha256(newer).hexdigest()
    with pytest.raises(DataError):
        load_source(source(server, checksum=checksum))
    assert (cache / "some" / "file.bin").read_bytes() == BODY
    server.body = newer
    assert load_source(source(server, checksum=checksum)) == newer


def test_the_offline_error_names_the_file_its_origin_and_its_place(cache, server, monkeypatch):
    monkeypatch.setenv("FEDPLUS_OFFLINE", "1")
    with pytest.raises(DataError) as error:
        load_source(source(server))
    message = str(error.value)
    for part in ("some/file.bin", server.url(), str(cache / "some/file.bin"), "FEDPLUS_DATA"):
        assert part in message
    assert "\n" not in message
    assert server.ranges == []


def test_a_missing_page_is_reported_with_its_status(cache, server):
    server.status = 404
    with pytest.raises(DataError, match="404"):
        load_source(source(server))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:9/a", "Connection refused"),
        ("https://127.0.0.1:9/a", "Connection refused"),
        ("http://nowhere.invalid/a", "(Name or service not known|Temporary failure in name .*)"),
    ],
)
def test_a_failed_connection_is_reported_with_its_cause_only(cache, url, reason):
    """Requests and urllib3 wrap the cause in messages about their own objects."""
    unreachable = (Source((File("a", CHECKSUM, (url,)),), lambda path: path),)
    with pytest.raises(DataError) as error:
        load_source(unreachable)
    message = str(error.value)
    assert re.search(rf"the download failed: {re.escape(url)}: {reason}\. It comes from", message)
    assert "Pool" not in message
    assert "Max retries" not in message


def test_a_proxy_that_refuses_is_named(cache, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    remote = (Source((File("a", CHECKSUM, ("https://example.org/a",)),), lambda path: path),)
    with pytest.raises(DataError, match=r"example\.org/a: the proxy failed: Connection refused\."):
        load_source(remote)


def test_a_server_that_closes_at_once_is_reported_in_words(cache):
    """The server accepts the connection and closes it without an answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/a"

        def close_connections():
            for _ in range(download.ATTEMPTS):
                listener.accept()[0].close()

        thread = threading.Thread(target=close_connections)
        thread.start()
        with pytest.raises(DataError, match=r"a: (Remote end closed|Connection reset)"):
            load_source((Source((File("a", CHECKSUM, (url,)),), lambda path: path),))
        thread.join()


def test_a_long_reason_of_several_lines_is_reported_whole_in_one_line():
    error = ValueError("first line\n  " + "x" * 500 + "\nlast line")
    assert download._reason(error) == "first line " + "x" * 500 + " last line"
    assert download._reason(ValueError()) == "ValueError"


def test_a_file_without_an_address_must_be_placed_by_the_user(cache):
    by_hand = (Source((File("a.csv", origin="the hospital's archive"),), lambda path: path),)
    with pytest.raises(
        DataError, match=r"cannot be downloaded\. It comes from the hospital's arch"
    ):
        load_source(by_hand)
    cache.mkdir(parents=True)
    (cache / "a.csv").write_text("1")
    assert load_source(by_hand) == cache / "a.csv"


def test_the_users_folder_is_searched_first_and_checked_but_never_written(
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
    with pytest.raises(DataError, match="FEDPLUS_DATA must be an existing folder"):
        load_source(source(server))


def test_the_source_whose_files_are_present_is_read(cache, server):
    here = Source((File("here.bin"),), lambda path: "here")
    away = Source((File("away.bin", CHECKSUM, (server.url(),)),), lambda path: "away")
    assert load_source((here, away)) == "away"
    (cache / "here.bin").write_bytes(b"x")
    assert load_source((here, away)) == "here"


def test_a_killed_download_is_resumed(cache, server):
    """The download runs in another process, which gets a SIGKILL."""
    server.body = body = BODY * 20
    checksum = "sha256:" + hashlib.sha256(body).hexdigest()
    server.pause = 0.001
    script = (
        "from fedplus.data.files import File, Source, load_source\n"
        f"file = File('some/file.bin', {checksum!r}, ({server.url()!r},))\n"
        "load_source((Source((file,), lambda path: path),))\n"
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
    assert cached_files(cache) == ["file.bin"]


@pytest.mark.parametrize("on_terminal", [True, False])
def test_progress_is_shown_at_a_terminal_and_not_in_a_pipe(cache, server, on_terminal):
    program = (
        "from fedplus.data.files import File, Source, load_source\n"
        f"file = File('some/file.bin', {CHECKSUM!r}, ({server.url()!r},))\n"
        "load_source((Source((file,), lambda path: path),))\n"
    )
    text = seen(program, on_terminal)
    if on_terminal:
        for expected in ("file.bin", "50.0/50.0 kB"):
            assert expected in text
    else:
        assert text == ""
