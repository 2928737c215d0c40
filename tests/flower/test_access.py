"""Only the user of a SuperLink or SuperNode may give it orders; real processes of two users."""

import os
import socket
import subprocess

import pytest
from stranger import NOBODY, Stranger, as_user, needs_root

from deployment import APP
from fedplus.flower import local_deployment
from fedplus.flower.local_deployment import COMMANDS, CONNECTION

POST = """
import sys, ssl, socket
port, path, ca, forwarded = sys.argv[1:]
plain = socket.create_connection(("127.0.0.1", int(port)), 30)
stream = plain
if ca != "-":
    context = ssl.create_default_context(cafile=ca)
    stream = context.wrap_socket(plain, server_hostname="localhost")
headers = f"X-Forwarded-For: {forwarded}\\r\\n" if forwarded != "-" else ""
stream.sendall(f"POST {path} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n{headers}"
               "Content-Type: application/x-protobuf\\r\\nContent-Length: 0\\r\\n\\r\\n".encode())
answer = b""
while more := stream.recv(65536):
    answer += more
print(answer.decode(errors="replace"))
"""


@pytest.fixture
def stranger(deployment):
    deployment.superlink()
    made = Stranger(deployment, APP)
    yield made
    made.close()


@needs_root
def test_another_user_of_the_server_cannot_give_orders(deployment, stranger, tmp_path):
    for command in (
        ["run", ".", CONNECTION], ["list", CONNECTION], ["federation", "list", CONNECTION],
        ["supernode", "list", CONNECTION],
    ):  # fmt: skip
        status, said = stranger.flwr(*command)
        assert status != 0, said
        assert f"uid {NOBODY}" in said
    assert '"runs": []' in deployment.flwr("list", CONNECTION, "--format", "json")

    ca = stranger.folder / "ca.crt"
    refused = (
        "/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task",
        "/v1/runtime/start-automation", "/docs", "/openapi.json",
        "//v1/control/start-run", "/v1/fleet",
    )  # fmt: skip
    for path in refused:
        assert_refused(stranger.python(POST, deployment.port, path, ca, "-"))
    around = stranger.python(POST, deployment.port, "/v1/fleet/../control/start-run", ca, "-")
    assert around[1].startswith("HTTP/1.1 404")
    status, said = stranger.python(POST, deployment.port, "/v1/fleet/activate-node", ca, "-")
    assert status == 0
    assert not said.startswith("HTTP/1.1 403")


@needs_root
def test_an_unprivileged_service_user_gives_orders_and_root_does_not(deployment, monkeypatch):
    """As in the generated unit: the SuperLink runs as a user of its own."""
    service = 65533
    for name in ("ca.crt", "server.pem", "server.key"):
        os.chown(deployment.folder / name, service, service)
    for folder in (deployment.folder, deployment.folder / "flwr"):
        os.chown(folder, service, service)
    monkeypatch.setattr(local_deployment, "COMMANDS", (*as_user(service), *COMMANDS))
    deployment.superlink()
    own = Stranger(deployment, APP, service)
    try:
        status, said = own.flwr("run", ".", CONNECTION)
        assert status == 0, said
        assert "Successfully started run" in said
    finally:
        own.close()
    with pytest.raises(RuntimeError, match=r"uid 65533\) may do this, got uid 0"):
        deployment.flwr("list", CONNECTION)


@needs_root
def test_a_forged_address_does_not_help(deployment, stranger):
    """Uvicorn believes ``X-Forwarded-For`` of a local connection; the guard must not."""
    with socket.create_connection(("127.0.0.1", deployment.port)) as own:
        host, port = own.getsockname()
        said = stranger.python(
            POST,
            deployment.port,
            "/v1/control/list-runs",
            stranger.folder / "ca.crt",
            f"{host}:{port}",
        )
    assert_refused(said)


@needs_root
def test_another_user_of_a_party_cannot_take_its_tasks(deployment, stranger):
    deployment.supernode(0, deployment.key(0), num_partitions=1)
    port = deployment.runtime_ports[0]
    deployment.wait(lambda: "SuperNode ID" in deployment.log("node-0"), "the party")
    for path in ("/v1/runtime/acquire-task", "/v1/runtime/pull-task-input", "/docs"):
        assert_refused(stranger.python(POST, port, path, "-", "-"))


def test_a_deployment_is_readable_by_its_owner_only(deployment):
    deployment.superlink()
    assert deployment.folder.stat().st_mode & 0o777 == 0o700
    for name in ("superlink.db", "server.key"):
        assert (deployment.folder / name).stat().st_mode & 0o077 == 0, name


def test_a_second_way_in_is_refused():
    """Flower's older interface is another port, without any check."""
    done = subprocess.run(
        [*COMMANDS, "superlink"], env={**os.environ, "FLWR_INTERNAL_GRPC_CONTROL_API": "1"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "fedplus-superlink: FLWR_INTERNAL_GRPC_CONTROL_API must be unset, got 1."
    )


def assert_refused(answer):
    status, said = answer
    assert status == 0, said
    assert said.startswith("HTTP/1.1 403"), said
    assert f"uid {NOBODY}" in said
