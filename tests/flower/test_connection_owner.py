"""``connection_owner`` finds the user of a local connection, with real sockets of both families."""

import contextlib
import os
import socket
import subprocess
import sys

import pytest
from other_user import NOBODY, as_user, needs_root

from fedplus.flower.access import connection_owner

CLIENT_HOSTS = {
    "127.0.0.1": "127.0.0.1",
    "::1": "::1",
    "::": "127.0.0.1",
    "both": "::ffff:127.0.0.1",
}


def open_server(host):
    if host in ("::", "both"):
        return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family)


@contextlib.contextmanager
def open_connection(host):
    """Yield a client's socket, and the two addresses of the connection as its server sees them."""
    with open_server(host) as server:
        client = socket.create_connection((CLIENT_HOSTS[host], server.getsockname()[1]), 10)
        accepted, address = server.accept()
        with client, accepted:
            yield client, address[:2], accepted.getsockname()[:2]


@pytest.mark.parametrize("host", CLIENT_HOSTS)
def test_an_open_connection_is_owned_by_its_user(host):
    with open_connection(host) as (_, client, server):
        assert connection_owner(client, server) == os.geteuid()
        assert connection_owner(server, client) == os.geteuid()  # The other end has the same owner.


@pytest.mark.parametrize("host", CLIENT_HOSTS)
def test_a_closed_connection_has_no_owner(host):
    """The kernel shows root as the owner of some sockets that were closed."""
    with open_connection(host) as (socket_, client, server):
        socket_.shutdown(socket.SHUT_WR)
        assert connection_owner(client, server) is None
        socket_.close()
        assert connection_owner(client, server) is None


def test_a_connection_from_elsewhere_has_no_owner():
    assert connection_owner(("10.255.0.1", 4), ("127.0.0.1", 5)) is None
    assert connection_owner(("2001:db8::1", 4), ("::1", 5)) is None
    assert connection_owner(None, ("127.0.0.1", 5)) is None


@needs_root
def test_a_connection_of_another_user_is_owned_by_that_user():
    code = (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); input()"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        command = [*as_user(NOBODY), sys.executable, "-c", code, port]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            accepted, client = server.accept()
            with accepted:
                assert connection_owner(client, accepted.getsockname()) == NOBODY
            process.communicate(b"\n", timeout=30)
