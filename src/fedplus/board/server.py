"""Serves the board until Ctrl-C."""

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
    """Serve the board of a folder of runs until Ctrl-C, and print its address.

    Args:
        folder: The folder of runs.
        host: Name or address to listen at; by default only this machine can reach the board.
        port: Port to listen at; 0 takes any free port.
        token: Token that a visitor must have; required if other machines can reach the board.
        open_browser: Open the board in the default browser.

    Raises:
        SettingError: A setting is not valid, or the port is in use.
    """
    require(0 <= port <= 65535, "port", port, "in [0, 65535]", "0 takes any free port.")
    family, address = _resolve(host, port)
    is_loopback = ipaddress.ip_address(address[0]).is_loopback
    require(
        is_loopback or token is not None,
        "token", token, f"given if other machines can reach the board, as at {host}",
        "Give --token with a text that is hard to guess, or leave out --host and use ssh -L.",
    )  # fmt: skip
    hosts = {host, address[0], *LOOPBACK, *(() if is_loopback else (socket.gethostname(),))}
    board = app(folder, hosts=hosts, token=token)
    with _listen(family, address) as listener:
        config = uvicorn.Config(
            board, http="h11", ws="none", lifespan="off",
            log_config=None, log_level="error", access_log=False,
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=3,
        )  # fmt: skip
        server = uvicorn.Server(config)
        board.state.is_closing = lambda: server.should_exit
        # A second Ctrl-C interrupts open streams, for which uvicorn would log tracebacks.
        logging.getLogger("uvicorn.error").addFilter(lambda record: not server.should_exit)
        url = _url(host, listener, token)
        threading.Thread(target=_announce, args=(server, url, open_browser), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again after its shutdown.
            server.run(sockets=[listener])


def _announce(server: uvicorn.Server, url: str, open_browser: bool) -> None:
    """Print the board's address once the server has started; from then on Ctrl-C stops it cleanly."""
    while not server.started:
        time.sleep(0.01)
    print(url, flush=True)
    if open_browser:
        webbrowser.open(url)


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    require(bool(host), "host", repr(host), "a name or an address", "127.0.0.1 is this machine.")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise SettingError(
            f"host must be a name or an address of this machine, got {host}: {error.strerror}."
        ) from error
    return family, address


def _listen(family: socket.AddressFamily, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # On Windows this option would share a port that is in use.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        is_taken = error.errno == errno.EADDRINUSE
        why = "which is taken" if is_taken else f"which is not available ({error.strerror})"
        raise SettingError(
            f"port must be a free one at {address[0]}, got {address[1]}, {why}. "
            "Choose another with --port; --port 0 takes any free port."
        ) from error
    return listener


def _url(host: str, listener: socket.socket, token: str | None) -> str:
    """Return the address to open in a browser."""
    address, port = listener.getsockname()[:2]
    name = "127.0.0.1" if ipaddress.ip_address(address).is_unspecified else host
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")
