"""Only the user of a SuperLink or SuperNode can control it; tested with processes of two users."""

import os
import socket
import subprocess

import pytest
from app_deployment import APP
from other_user import NOBODY, OtherUser, as_user, needs_root

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
def other_user(deployment):
    deployment.start_superlink()
    user = OtherUser(deployment, APP)
    yield user
    user.close()


@needs_root
def test_another_user_cannot_control_the_server(deployment, other_user, tmp_path):
    for command in (
        ["run", ".", CONNECTION], ["list", CONNECTION], ["federation", "list", CONNECTION],
        ["supernode", "list", CONNECTION],
    ):  # fmt: skip
        status, output = other_user.flwr(*command)
        assert status != 0, output
        assert f"uid {NOBODY}" in output
    assert '"runs": []' in deployment.flwr("list", CONNECTION, "--format", "json")

    ca = other_user.folder / "ca.crt"
    refused_paths = (
        "/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task",
        "/v1/runtime/start-automation", "/docs", "/openapi.json",
        "//v1/control/start-run", "/v1/fleet",
    )  # fmt: skip
    for path in refused_paths:
        assert_refused(other_user.python(POST, deployment.port, path, ca, "-"))
    traversal = other_user.python(POST, deployment.port, "/v1/fleet/../control/start-run", ca, "-")
    assert traversal[1].startswith("HTTP/1.1 404")
    status, output = other_user.python(POST, deployment.port, "/v1/fleet/activate-node", ca, "-")
    assert status == 0
    assert not output.startswith("HTTP/1.1 403")


@needs_root
def test_an_unprivileged_service_user_controls_the_server_and_root_does_not(
    deployment, monkeypatch
):
    """The SuperLink runs as a user of its own, as in the generated systemd unit."""
    service = 65533
    for name in ("ca.crt", "server.pem", "server.key"):
        os.chown(deployment.folder / name, service, service)
    for folder in (deployment.folder, deployment.folder / "flwr"):
        os.chown(folder, service, service)
    monkeypatch.setattr(local_deployment, "COMMANDS", (*as_user(service), *COMMANDS))
    deployment.start_superlink()
    service_user = OtherUser(deployment, APP, service)
    try:
        status, output = service_user.flwr("run", ".", CONNECTION)
        assert status == 0, output
        assert "Successfully started run" in output
    finally:
        service_user.close()
    with pytest.raises(RuntimeError, match=r"uid 65533\) may do this, got uid 0"):
        deployment.flwr("list", CONNECTION)


@needs_root
def test_a_forged_address_is_refused(deployment, other_user):
    """Uvicorn believes ``X-Forwarded-For`` of a local connection; the access control must not."""
    with socket.create_connection(("127.0.0.1", deployment.port)) as connection:
        host, port = connection.getsockname()
        answer = other_user.python(
            POST,
            deployment.port,
            "/v1/control/list-runs",
            other_user.folder / "ca.crt",
            f"{host}:{port}",
        )
    assert_refused(answer)


@needs_root
def test_another_user_cannot_take_the_tasks_of_a_party(deployment, other_user):
    deployment.start_supernode(0, deployment.register_key(0), num_partitions=1)
    port = deployment.runtime_ports[0]
    deployment.wait_until(lambda: "SuperNode ID" in deployment.read_log("node-0"), "the party")
    for path in ("/v1/runtime/acquire-task", "/v1/runtime/pull-task-input", "/docs"):
        assert_refused(other_user.python(POST, port, path, "-", "-"))


def test_a_deployment_is_readable_by_its_owner_only(deployment):
    deployment.start_superlink()
    assert deployment.folder.stat().st_mode & 0o777 == 0o700
    for name in ("superlink.db", "server.key"):
        assert (deployment.folder / name).stat().st_mode & 0o077 == 0, name


def test_flowers_older_interface_is_refused():
    """It opens another port, without any check."""
    done = subprocess.run(
        [*COMMANDS, "superlink"], env={**os.environ, "FLWR_INTERNAL_GRPC_CONTROL_API": "1"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "fedplus-superlink: Remove the environment variable FLWR_INTERNAL_GRPC_CONTROL_API: "
    )


def assert_refused(answer):
    status, output = answer
    assert status == 0, output
    assert output.startswith("HTTP/1.1 403"), output
    assert f"uid {NOBODY}" in output
