"""A real board on a free port of this machine, and what one asks it."""

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
    def place(self):
        split = urlsplit(self.address)
        return split.hostname, split.port

    def get(self, path, **request):
        return httpx.get(self.address.partition("?")[0].rstrip("/") + path, **request)

    def raw(self, path, *headers, method="GET"):
        """Status, headers and body, of a request that nobody tidied up."""
        host, port = self.place
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{port}", *headers, "Connection: close"]
        if any(line.lower().startswith("host:") for line in headers):
            del lines[1]
        with socket.create_connection((host, port), timeout=10) as sent:
            sent.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
            answer = b"".join(iter(lambda: sent.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), head.decode("latin-1").lower(), body

    @contextlib.contextmanager
    def events(self, headers=None, **asked):
        """The events of a stream, each with ``event``, ``id`` and ``data``; a comment as text."""
        with (
            httpx.Client(timeout=20) as client,
            client.stream(
                "GET", f"{self.address}api/events", params=asked, headers=headers
            ) as answer,
        ):
            assert answer.status_code == 200, answer.read()
            yield _events(answer.iter_lines())


def _events(lines):
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


def until(events, wanted):
    """The first event of this name."""
    return next(event for event in events if event["event"] == wanted)


def start(folder, **settings):
    settings = {"port": 0} | settings
    return subprocess.Popen(
        [sys.executable, "-c", SERVE, str(folder), json.dumps(settings)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )  # fmt: skip


@contextlib.contextmanager
def served(folder, **settings):
    """A board until the end of the block; it must end quietly at Ctrl-C."""
    process = start(folder, **settings)
    address = process.stdout.readline().strip()
    try:
        assert address.startswith("http://"), process.communicate()
        yield Board(address, process)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert (process.returncode, said) == (0, "")
