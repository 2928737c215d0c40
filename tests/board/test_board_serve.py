"""Starting and ending a board."""

import contextlib
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from boards import served, start, until

from fedplus import SettingError
from fedplus.board import app, server
from report.samples import Sample


def test_a_busy_port_says_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            SettingError, match=rf"got {port}, which is taken\. .*--port 0"
        ) as caught:
            server(tmp_path, port=port)
    assert "\n" not in str(caught.value)


def test_other_machines_need_a_token(tmp_path):
    with pytest.raises(SettingError, match=r"at 0\.0\.0\.0, got None\. Give --token"):
        server(tmp_path, host="0.0.0.0", port=0)


def test_a_folder_must_be_there(tmp_path):
    with pytest.raises(SettingError, match="must be a folder"):
        server(tmp_path / "absent", port=0)
    with pytest.raises(SettingError, match="must be a folder"):
        app(tmp_path / "absent", hosts={"localhost"}, token=None)


@pytest.mark.parametrize(
    "settings",
    [{"port": -1}, {"port": 65536}, {"host": ""}, {"host": "no.such.invalid"}, {"token": ""}],
)  # fmt: skip
def test_bad_settings_are_told(tmp_path, settings):
    with pytest.raises(SettingError, match=" must be "):
        server(tmp_path, **({"port": 0} | settings))


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_ends_it_with_open_streams(tmp_path, presses):
    Sample(rounds=20).write(tmp_path / "run")
    process = start(tmp_path)
    address = process.stdout.readline()
    try:
        host, port = address.strip().removeprefix("http://").rstrip("/").split(":")
        streams = [socket.create_connection((host, int(port))) for _ in range(3)]
        for stream in streams:
            stream.sendall(f"GET /api/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            assert stream.recv(100)
        begun = time.monotonic()
        for _ in range(presses):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        out, said = process.communicate(timeout=10)
        assert time.monotonic() - begun < 4
        assert (process.returncode, out, said) == (0, "", "")
    finally:
        process.kill()
        for stream in streams:
            stream.close()


@pytest.mark.skipif(sys.platform != "linux", reason="counts the sockets of a process in /proc")
def test_a_stream_that_nobody_reads_ends(tmp_path):
    Sample(rounds=20).write(tmp_path / "run")
    with served(tmp_path) as board:
        folder = Path(f"/proc/{board.process.pid}/fd")

        def sockets():
            found = 0
            for link in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    found += "socket:" in str(link.readlink())
            return found

        board.raw("/api/runs")
        before = sockets()
        with board.events() as events:
            until(events, "runs")
            assert sockets() == before + 1
        deadline = time.monotonic() + 5
        while sockets() > before and time.monotonic() < deadline:
            time.sleep(0.1)
        assert sockets() == before
