"""Restricts a SuperLink or SuperNode to the user who runs it.

Flower 1.41 and 1.42 do not ask local callers for credentials. Anyone who reaches a SuperLink's port
can start a run, and anyone who reaches a SuperNode's port can take its tasks and read its state. Linux
knows which user owns the other end of a local connection, so every request is checked for that. The
fleet interface is not restricted here: Flower checks the signature of each registered party.
"""

import ipaddress
import os
import sys
from logging import WARNING
from pathlib import Path

import uvicorn
from flwr.common import log
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from fedplus.check import require

FLEET = "/v1/fleet/"
TCP, TCP6 = Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6")
ESTABLISHED = b"01"
ATTEMPTS = 5
"""The number of times that the kernel's tables are read.

The kernel returns a table page by page, so one reading may miss a row.
"""

Address = tuple[str, int]


def restrict_to_owner() -> None:
    """Make every HTTP server of this process refuse other users, except on the fleet interface.

    Raises:
        SettingError: This system does not show who opened a connection, or this version of Uvicorn
            cannot be restricted.
    """
    require(
        can_identify_users(), "the operating system", sys.platform, "Linux with /proc",
        "On other systems every user of this machine could run code; --allow-any-user allows this.",
    )  # fmt: skip
    load = getattr(uvicorn.Config, "load", None)
    require(
        callable(load), "uvicorn", uvicorn.__version__, "a version with Config.load",
        "Install the versions in fedplus's constraints.txt.",
    )  # fmt: skip
    owner = os.geteuid()

    def load_restricted(config: uvicorn.Config) -> None:
        load(config)  # type: ignore[misc]
        # This must be the outermost layer: further in, Uvicorn believes X-Forwarded-For.
        config.loaded_app = OwnerOnly(config.loaded_app, owner)

    setattr(uvicorn.Config, "load", load_restricted)  # noqa: B010


def can_identify_users() -> bool:
    """Return whether this system shows which user has opened a local connection."""
    return TCP.exists()


class OwnerOnly:
    """ASGI middleware that answers requests of other users with status 403.

    Args:
        app: The application to protect.
        owner: The id of the user whose requests are passed on.
    """

    def __init__(self, app: ASGIApp, owner: int) -> None:
        self.app, self.owner = app, owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan" or scope["path"].startswith(FLEET):
            await self.app(scope, receive, send)
            return
        user = connection_owner(scope["client"], scope["server"])
        if user == self.owner:
            await self.app(scope, receive, send)
            return
        caller = "a user of another machine" if user is None else f"uid {user}"
        detail = f"Only the user of this process (uid {self.owner}) may do this, got {caller}."
        log(WARNING, "Refused %s: %s", scope["path"], detail)
        refusal = JSONResponse({"detail": detail}, 403)
        await (WebSocketClose() if scope["type"] == "websocket" else refusal)(scope, receive, send)


def connection_owner(client: Address | None, server: Address | None) -> int | None:
    """Return the id of the local user who opened a connection.

    Args:
        client: Address and port of the end that opened the connection.
        server: Address and port of the end that accepted it.

    Returns:
        The user id, or None if the other end is not an open socket of this machine.
    """
    if client is None or server is None:
        return None
    pairs = zip(_table_entries(client), _table_entries(server), strict=True)
    rows = [b": %b %b " % pair for pair in pairs]
    for _ in range(ATTEMPTS):
        for table in (TCP, TCP6):
            content = table.read_bytes() if table.exists() else b""
            offsets = [offset for offset in map(content.find, rows) if offset >= 0]
            if offsets:
                # Columns, after the two addresses: state, queues, timer, retries, user, timeout, inode.
                state, _, _, _, user, _, inode = content[offsets[0] :].split(None, 10)[3:10]
                # A closed socket keeps a row without an inode; older kernels show root as its owner.
                return int(user) if state == ESTABLISHED and int(inode) else None
    return None


def _table_entries(address: Address) -> list[bytes]:
    """Return an address as the kernel's tables show it; an IPv4 address may be in both tables."""
    try:
        ip = ipaddress.IPv6Address(address[0])
        ip4 = ip.ipv4_mapped
    except ValueError:
        ip4 = ipaddress.IPv4Address(address[0])
        ip = ipaddress.IPv6Address(f"::ffff:{ip4}")
    versions = (version.packed for version in (ip, ip4) if version is not None)
    return [_table_entry(packed, address[1]) for packed in versions]


def _table_entry(packed: bytes, port: int) -> bytes:
    words = (int.from_bytes(packed[i : i + 4], sys.byteorder) for i in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}".encode()
