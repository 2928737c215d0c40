"""``fedplus new`` writes an app that works at once, run as a user would run it."""

import subprocess
import sys
import tomllib

import pytest

from command import environment, fedplus, refused
from fedplus.new import FRAMEWORKS, TEMPLATES

REQUIRED_MODULES = {"torch": "torch", "jax": "equinox", "numpy": "numpy"}
every_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


@pytest.fixture
def app(tmp_path, request):
    """Write an app for the test's framework and return its folder."""
    framework = request.getfixturevalue("framework")
    output, _ = fedplus("new", "my-app", "--framework", framework, cwd=tmp_path)
    assert "python -m my_app" in output
    return tmp_path / "my-app"


def run(app, *command):
    """Run a Python command in the app's folder, and return its output."""
    done = subprocess.run(
        [sys.executable, *command], cwd=app, env=environment(), capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@every_framework
def test_no_placeholder_is_left(app, framework):
    texts = {path: path.read_text() for path in app.rglob("*") if path.is_file()}
    assert not [p for p, text in texts.items() if "fedapp" in f"{p.name} {text}".lower()]
    assert not [p for p, text in texts.items() if "FRAMEWORK" in text or "DEPENDENCIES" in text]
    project = tomllib.loads((app / "pyproject.toml").read_text())
    assert project["project"]["name"] == "my-app"
    assert project["tool"]["flwr"]["app"]["components"]["clientapp"] == "my_app.party:app"
    for name in ("README.md", "deploy.py", "certificates.py", "my_app/model.py", ".gitignore"):
        assert (app / name).is_file()


@pytest.mark.slow  # It needs what only make test-all installs.
@every_framework
def test_the_code_passes_ruff_and_mypy(app, framework):
    """ruff uses this project's rules; mypy --strict checks the app that the templates become."""
    pytest.importorskip("flwr")
    settings = ["--config", str(TEMPLATES / "ruff.toml")]
    run(app, "-m", "ruff", "check", *settings, "--config", "src=['.']", ".")
    run(app, "-m", "ruff", "format", "--check", *settings, ".")
    strict = [
        "--strict", "--ignore-missing-imports", "--disable-error-code=untyped-decorator",
        "--follow-imports=silent", "--allow-untyped-calls",
    ]  # fmt: skip
    run(app, "-m", "mypy", *strict, "-p", "my_app")


@every_framework
def test_the_app_trains_in_process_and_its_own_tests_pass(app, framework):
    pytest.importorskip(REQUIRED_MODULES[framework])
    pytest.importorskip("flwr")
    lines = run(app, "-m", "my_app").splitlines()
    scores = [float(line.split()[1].removesuffix("%")) for line in lines[2:5]]
    assert lines[0].startswith("After 10 rounds")
    assert min(scores) > 70  # This includes the party with inverted images.
    folder = lines[-1].removeprefix("A report: fedplus report ")
    fedplus("report", folder, cwd=app)
    assert (app / folder / "report.html").is_file()
    assert "4 passed" in run(app, "-m", "pytest", "-q", "-p", "no:cacheprovider")


JOIN_FIRST = """
import tomllib
from pathlib import Path

import numpy as np
import fedplus as fp
from fedplus.flower import InProcessGrid
from my_app import party, server

config = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
server.make_method = lambda: fp.presets.fedavg_plus(eta=0.1, sigma=0.5).replace(join="first")
grid = InProcessGrid(party.app, 4, run_config=config)
grid.connected = [1]
config |= {"rounds": 1, "least": 1, "parties": 4}
state = server.run_federation(grid, config, Path("server")).state
assert np.any(state.models[1])
np.testing.assert_allclose(state.w_global, state.models[1] / 4, atol=1e-6)
"""


@pytest.mark.parametrize("framework", ["numpy"])
def test_the_parties_of_the_configuration_count_with_join_first(
    app, framework, tmp_path, monkeypatch
):
    """Three of four parties have not replied yet; the first model, with which they count, is zero."""
    pytest.importorskip("flwr")
    monkeypatch.setenv("FEDPLUS_STATE", str(tmp_path / "state"))
    run(app, "-c", JOIN_FIRST)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["7up"], "name must be at most 32 letters, digits, - and _, a letter first, got '7up'."),
        (["json"], "the app itself do not use, got 'json'."),
        (["class"], "the app itself do not use, got 'class'."),
        (["numpy"], "the app itself do not use, got 'numpy'."),
        (["deployment"], "the app itself do not use, got 'deployment'."),
        (["here"], "FOLDER must be a new folder, got here, which exists."),
        (["x", "--framework", "jaxx"], "framework must be one that fedplus knows, got 'jaxx'. Did you"),
    ],
)  # fmt: skip
def test_a_refused_name_or_framework_leaves_no_files(arguments, error, tmp_path):
    (tmp_path / "here").mkdir()
    assert error in refused("new", *arguments, cwd=tmp_path)
    assert list(tmp_path.rglob("*")) == [tmp_path / "here"]


@pytest.mark.parametrize("framework", ["numpy"])
def test_the_script_writes_valid_certificates_and_private_keys(app, framework):
    pytest.importorskip("flwr")
    run(app, "certificates.py", "server.example.org", "10.0.0.7", "--parties", "2")
    folder = app / "certificates"
    secret = {p.name for p in folder.iterdir() if p.stat().st_mode & 0o077 == 0}
    assert secret == {"server.key", "node-0", "node-1"}
    from cryptography import x509

    server = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
    ca = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    server.verify_directly_issued_by(ca)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["server.example.org", "localhost"]
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    assert list(addresses) == ["10.0.0.7", "127.0.0.1"]
    keys = [(folder / f"node-{k}.pub").read_text() for k in range(2)]
    assert all(key.startswith("ecdsa-sha2-nistp384 ") for key in keys)
    assert keys[0] != keys[1]
    again = subprocess.run(
        [sys.executable, "certificates.py", "x"], cwd=app, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert again.returncode == 2
    assert "exists already" in again.stderr
