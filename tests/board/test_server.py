"""Starting and stopping the server of the board."""

import contextlib
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from board_process import next_event, running_board, start_board

from fedplus import SettingError
from fedplus.board import app, serve
from report.sample_runs import Sample


def test_a_port_in_use_gives_a_message_with_advice(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            SettingError, match=rf"got {port}, which is taken\. .*--port 0"
        ) as caught:
            serve(tmp_path, port=port)
    assert "\n" not in str(caught.value)


def test_a_board_for_other_machines_needs_a_token(tmp_path):
    with pytest.raises(SettingError, match=r"at 0\.0\.0\.0, got None\. Give --token"):
        serve(tmp_path, host="0.0.0.0", port=0)


def test_the_folder_must_exist(tmp_path):
    with pytest.raises(SettingError, match="must be an existing folder of runs"):
        serve(tmp_path / "absent", port=0)
    with pytest.raises(SettingError, match="must be an existing folder of runs"):
        app(tmp_path / "absent", hosts={"localhost"}, token=None)


@pytest.mark.parametrize(
    "settings",
    [{"port": -1}, {"port": 65536}, {"host": ""}, {"host": "no.such.invalid"}, {"token": ""}],
)  # fmt: skip
def test_invalid_settings_are_rejected(tmp_path, settings):
    with pytest.raises(SettingError, match=" must be "):
        serve(tmp_path, **({"port": 0} | settings))


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_stops_the_board_with_open_streams(tmp_path, presses):
    Sample(rounds=20).write(tmp_path / "run")
    process = start_board(tmp_path)
    address = process.stdout.readline()
    try:
        host, port = address.strip().removeprefix("http://").rstrip("/").split(":")
        streams = [socket.create_connection((host, int(port))) for _ in range(3)]
        for stream in streams:
            stream.sendall(f"GET /api/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            assert stream.recv(100)
        start = time.monotonic()
        for _ in range(presses):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        output, errors = process.communicate(timeout=10)
        assert time.monotonic() - start < 4
        assert (process.returncode, output, errors) == (0, "", "")
    finally:
        process.kill()
        for stream in streams:
            stream.close()


@pytest.mark.skipif(sys.platform != "linux", reason="counts the sockets of a process in /proc")
def test_the_stream_of_a_closed_connection_ends(tmp_path):
    Sample(rounds=20).write(tmp_path / "run")
    with running_board(tmp_path) as board:
        folder = Path(f"/proc/{board.process.pid}/fd")

        def count_sockets():
            count = 0
            for link in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    count += "socket:" in str(link.readlink())
            return count

        board.raw("/api/runs")
        before = count_sockets()
        with board.events() as events:
            next_event(events, "runs")
            assert count_sockets() == before + 1
        deadline = time.monotonic() + 5
        while count_sockets() > before and time.monotonic() < deadline:
            time.sleep(0.1)
        assert count_sockets() == before
