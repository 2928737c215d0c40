"""The board, served until Ctrl-C."""

import contextlib
import errno
import ipaddress
import logging
import os
import socket
import threading
import time
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn

from fedplus.board.app import app
from fedplus.check import SettingError, require

LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8421,
    token: str | None = None,
    open_browser: bool = False,
) -> None:
    """Serve the board of a folder of runs; the address is printed once it listens."""
    require(0 <= port <= 65535, "port", port, "in [0, 65535]", "0 takes any that is free.")
    family, where = _resolved(host, port)
    here = ipaddress.ip_address(where[0]).is_loopback
    require(
        here or token is not None,
        "token", token, f"given where others can reach the board, as at {host}",
        "Give --token with a text that is hard to guess, or leave out --host and come by ssh -L.",
    )  # fmt: skip
    hosts = {host, where[0], *LOOPBACK, *(() if here else (socket.gethostname(),))}
    board = app(folder, hosts=hosts, token=token)
    with _listening(family, where) as listener:
        config = uvicorn.Config(
            board, http="h11", ws="none", lifespan="off",
            log_config=None, log_level="error", access_log=False,
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=3,
        )  # fmt: skip
        server = uvicorn.Server(config)
        board.state.closing = lambda: server.should_exit
        # A second Ctrl-C cuts the streams off, and uvicorn would show where.
        logging.getLogger("uvicorn.error").addFilter(lambda record: not server.should_exit)
        address = _written(host, listener, token)
        told = threading.Thread(target=_announce, args=(server, address, open_browser), daemon=True)
        told.start()
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again when all is closed.
            server.run(sockets=[listener])


def _announce(server: uvicorn.Server, address: str, open_browser: bool) -> None:
    """Say where it is, once it serves: from then on Ctrl-C ends it as it should."""
    while not server.started:
        time.sleep(0.01)
    print(address, flush=True)
    if open_browser:
        webbrowser.open(address)


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    require(bool(host), "host", repr(host), "a name or an address", "127.0.0.1 is this machine.")
    try:
        family, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise SettingError(
            f"host must be a name or an address of this machine, got {host}: {error.strerror}."
        ) from error
    return family, where


def _listening(family: socket.AddressFamily, where: Any) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # Elsewhere this would share a port that is taken.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
        made.listen(128)
    except OSError as error:
        made.close()
        taken = error.errno == errno.EADDRINUSE
        why = "which is taken" if taken else f"which cannot be had ({error.strerror})"
        raise SettingError(
            f"port must be a free one at {where[0]}, got {where[1]}, {why}. "
            "Choose another with --port; --port 0 takes any that is free."
        ) from error
    return made


def _written(host: str, listener: socket.socket, token: str | None) -> str:
    """The address to open in a browser."""
    address, port = listener.getsockname()[:2]
    shown = "127.0.0.1" if ipaddress.ip_address(address).is_unspecified else host
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")
