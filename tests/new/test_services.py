"""The services that a new app brings, tried with the real programs."""

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
def test_systemd_takes_the_units(app):
    """With a program that is there in the place of those that this machine lacks."""
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
def test_parties_come_in_by_one_port_and_an_operator_does_not(app, tmp_path):
    here = LocalDeployment(app, tmp_path / "deployment", {"JAX_PLATFORMS": "cpu"})
    port = free_port()
    try:
        here.superlink()
        start_nginx(here, app, port)
        for k in range(2):
            here.supernode(k, here.key(k), port, num_partitions=2)
        run = here.run(rounds=1)
        here.wait(lambda: here.status(run) == COMPLETED, "the run", 400)
    finally:
        here.close()


def start_nginx(here, app, port):
    """The app's own configuration, with this machine's paths and ports."""
    text = (app / "services" / "nginx.conf").read_text()
    for said, meant in (
        ("listen 8000", f"listen 127.0.0.1:{port}"),
        ("127.0.0.1:8001", f"127.0.0.1:{here.port}"),
        ("/etc/meters", str(here.folder)),
    ):
        assert said in text
        text = text.replace(said, meant)
    path = here.folder / "nginx.conf"
    path.write_text(
        f"daemon off; user root; pid {here.folder}/nginx.pid; events {{}}\n"
        f"http {{ access_log {here.folder}/access.log; \n{text}\n}}\n"
    )
    here.start("nginx", "nginx", "-c", path, "-e", here.folder / "nginx-errors.log")
    with httpx.Client(verify=ssl.create_default_context(cafile=here.folder / "ca.crt")) as client:

        def answer(path):
            return client.post(f"https://127.0.0.1:{port}{path}").status_code

        here.wait(lambda: reached(lambda: answer("/")), "nginx")
        assert answer("/v1/control/list-runs") == 403
        assert answer("/v1/control/start-run") == 403
        assert answer("/v1/fleet/pull-messages") != 403
        own = client.post(f"https://127.0.0.1:{here.port}/v1/control/list-runs").status_code
        assert own != 403  # The SuperLink itself lets in the user who runs it.


def reached(ask):
    try:
        ask()
    except httpx.ConnectError:
        return False
    return True
