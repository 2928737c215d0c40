"""The services of a new app work with systemd and nginx."""

import shutil
import ssl
import subprocess

import httpx
import pytest

from fedplus.flower.local_deployment import COMPLETED, LocalDeployment
from fedplus.flower.processes import free_port
from fedplus.new import write_app


@pytest.fixture
def app(tmp_path):
    write_app(tmp_path / "meters", "numpy")
    return tmp_path / "meters"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_units(app):
    """``/bin/true`` replaces the programs, which are not installed on this machine."""
    units = sorted((app / "services").glob("*.service"))
    for unit in units:
        unit.write_text(unit.read_text().replace("/opt/meters/bin/", "/bin/true "))
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    assert len(units) == 2
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_nginx_passes_on_requests_of_parties_but_not_of_operators(app, tmp_path):
    deployment = LocalDeployment(app, tmp_path / "deployment", {"JAX_PLATFORMS": "cpu"})
    port = free_port()
    try:
        deployment.start_superlink()
        start_nginx(deployment, app, port)
        for k in range(2):
            deployment.start_supernode(k, deployment.register_key(k), port, num_partitions=2)
        run = deployment.submit(rounds=1)
        deployment.wait_until(lambda: deployment.status(run) == COMPLETED, "the run", 400)
    finally:
        deployment.close()


def start_nginx(deployment, app, port):
    """Start nginx with the app's configuration, adapted to this machine's paths and ports."""
    text = (app / "services" / "nginx.conf").read_text()
    for old, new in (
        ("listen 8000", f"listen 127.0.0.1:{port}"),
        ("127.0.0.1:8001", f"127.0.0.1:{deployment.port}"),
        ("/etc/meters", str(deployment.folder)),
    ):
        assert old in text
        text = text.replace(old, new)
    path = deployment.folder / "nginx.conf"
    path.write_text(
        f"daemon off; user root; pid {deployment.folder}/nginx.pid; events {{}}\n"
        f"http {{ access_log {deployment.folder}/access.log; \n{text}\n}}\n"
    )
    deployment.start_process(
        "nginx", "nginx", "-c", path, "-e", deployment.folder / "nginx-errors.log"
    )
    with httpx.Client(
        verify=ssl.create_default_context(cafile=deployment.folder / "ca.crt")
    ) as client:

        def post(path, port=port):
            return client.post(f"https://127.0.0.1:{port}{path}").status_code

        deployment.wait_until(lambda: is_reachable(lambda: post("/")), "nginx")
        assert post("/v1/control/list-runs") == 403
        assert post("/v1/control/start-run") == 403
        assert post("/v1/fleet/pull-messages") != 403
        # The SuperLink itself accepts the user who runs it.
        assert post("/v1/control/list-runs", deployment.port) != 403


def is_reachable(request):
    try:
        request()
    except httpx.ConnectError:
        return False
    return True
