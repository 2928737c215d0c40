"""A party runs the app that its operator has pinned, and no code of another one."""

import hashlib
import json
import shutil
import subprocess
import sys

import pytest
from app_deployment import APP

from command import fedplus, refused
from fedplus.check import SettingError
from fedplus.flower.app_pinning import app_hash
from fedplus.flower.local_deployment import BIN, CONNECTION

SUPERNODE = [sys.executable, "-m", "fedplus.flower.commands", "supernode"]


@pytest.fixture
def other_app(tmp_path):
    """Copy the tests' app and add code that nobody has reviewed; it creates a marker if it runs."""
    folder = tmp_path / "regression"
    shutil.copytree(APP, folder, ignore=shutil.ignore_patterns("__pycache__"))
    client = folder / "regression" / "client.py"
    marker = tmp_path / "executed"
    client.write_text(f"{client.read_text()}\nopen({str(marker)!r}, 'w').close()\n")
    return folder, marker


def test_a_party_runs_the_pinned_app_and_no_code_of_another(deployment, other_app, tmp_path):
    folder, marker = other_app
    deployment.start(parties=1)
    (tmp_path / "other").mkdir()
    config = {"rounds": 1, "least": 1, "party_folder": str(deployment.parties)}
    deployment.submit(folder, **config, server_folder=str(tmp_path / "other"))
    result = tmp_path / "other" / "result.json"
    deployment.wait_until(result.exists, "the run of the other app", 300)
    (dropped,) = json.loads(result.read_text())["dropped"]
    assert f"got {app_hash(folder)}" in str(dropped)
    lines = [line for line in deployment.read_log("node-0").splitlines() if "Refused run" in line]
    assert len(lines) == 1
    assert lines[0].endswith(f"got {app_hash(folder)}.")

    run = deployment.train(rounds=1, least=1)
    assert deployment.result(run)["done"] == 1
    listed = deployment.flwr("list", "--run-id", run, CONNECTION, "--format", "json")
    assert app_hash(APP) in listed
    assert not marker.exists()


def test_the_other_app_creates_its_marker_if_it_is_pinned(deployment, other_app, tmp_path):
    """This shows that the other test would find code that runs."""
    folder, marker = other_app
    deployment.apps = (folder,)
    deployment.start(parties=1)
    (tmp_path / "other").mkdir()
    config = {"rounds": 1, "least": 1, "party_folder": str(deployment.parties)}
    deployment.submit(folder, **config, server_folder=str(tmp_path / "other"))
    deployment.wait_until(marker.exists, "the other app", 300)


def test_app_hash_is_the_hash_of_the_bundle_that_flower_builds(tmp_path):
    subprocess.run(
        [BIN / "flwr", "build", "--app", APP], cwd=tmp_path, check=True, capture_output=True
    )
    (bundle,) = tmp_path.glob("*.fab")
    expected = hashlib.sha256(bundle.read_bytes()).hexdigest()
    assert app_hash(APP) == expected
    assert fedplus("app-hash", APP)[0] == f"{expected}\n"


def test_app_hash_refuses_a_folder_without_an_app(tmp_path):
    with pytest.raises(SettingError, match=r"^app must be a folder with a pyproject.toml, got "):
        app_hash(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n')
    assert "app must be a Flower app, got" in refused("app-hash", tmp_path)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "--app-hash must be given at least once, got none."),
        (
            ["--app-hash", "abc"],
            "--app-hash must be 64 hexadecimal digits in lower case, got 'abc'.",
        ),
    ],
)
def test_a_party_without_a_valid_pin_does_not_start(options, error):
    assert error in refused_supernode([*SUPERNODE, *options])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            "import flwr; flwr.__version__ = '1.43.0'",
            "flwr must be version 1.41 or 1.42, got 1.43.0.",
        ),
        (
            "from flwr.supernode import start_client_internal as s; del s._pull_and_store_message",
            "flwr must be a version that fedplus can check, got a version without",
        ),
        (
            "import uvicorn; del uvicorn.Config.load",
            "uvicorn must be a version with Config.load, got",
        ),
    ],
)
def test_a_party_with_an_unsupported_version_does_not_start(change, error):
    code = f"{change}; from fedplus.flower.commands import supernode; supernode()"
    assert error in refused_supernode([sys.executable, "-c", code, "--app-hash", "0" * 64])


def refused_supernode(command):
    """Run a SuperNode that must be refused, and return the line that it prints."""
    done = subprocess.run(
        [*command, "--insecure", "--superlink", "127.0.0.1:9"], capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line
