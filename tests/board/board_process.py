"""Starts a real board on a free port of this machine, and sends requests to it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

SERVE = """
import json, sys
from pathlib import Path
from fedplus.board import serve
from fedplus import SettingError
try:
    serve(Path(sys.argv[1]), **json.loads(sys.argv[2]))
except SettingError as error:
    sys.exit(f"SettingError: {error}")
"""


class Board(NamedTuple):
    address: str
    process: subprocess.Popen

    @property
    def host_and_port(self):
        split = urlsplit(self.address)
        return split.hostname, split.port

    def get(self, path, **request):
        return httpx.get(self.address.partition("?")[0].rstrip("/") + path, **request)

    def raw(self, path, *headers, method="GET"):
        """Send a request exactly as given, and return status, headers and body."""
        host, port = self.host_and_port
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{port}", *headers, "Connection: close"]
        if any(line.lower().startswith("host:") for line in headers):
            del lines[1]
        with socket.create_connection((host, port), timeout=10) as connection:
            connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
            response = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = response.partition(b"\r\n\r\n")
        return int(head.split()[1]), head.decode("latin-1").lower(), body

    @contextlib.contextmanager
    def events(self, headers=None, **query):
        """Open an event stream, and yield an iterator of events with ``event``, ``id``, ``data``."""
        with (
            httpx.Client(timeout=20) as client,
            client.stream(
                "GET", f"{self.address}api/events", params=query, headers=headers
            ) as response,
        ):
            assert response.status_code == 200, response.read()
            yield _parse_events(response.iter_lines())


def _parse_events(lines):
    event = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif "event" in event:
            yield event | {"data": json.loads(event["data"])}
            event = {}
        else:
            event = {}


def next_event(events, wanted):
    """Return the next event with this name."""
    return next(event for event in events if event["event"] == wanted)


def start_board(folder, **settings):
    settings = {"port": 0} | settings
    return subprocess.Popen(
        [sys.executable, "-c", SERVE, str(folder), json.dumps(settings)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )  # fmt: skip


@contextlib.contextmanager
def running_board(folder, **settings):
    """Run a board until the end of the block; Ctrl-C must then stop it without any output."""
    process = start_board(folder, **settings)
    address = process.stdout.readline().strip()
    try:
        assert address.startswith("http://"), process.communicate()
        yield Board(address, process)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert (process.returncode, errors) == (0, "")
