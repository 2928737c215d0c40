"""Nodes with no key, another key, another authority or no TLS are refused, in real processes."""

import json
import shutil

import pytest

from fedplus.flower.certificates import write_certificates, write_key
from fedplus.flower.local_deployment import BIN, CONNECTION
from fedplus.flower.processes import free_port

pytestmark = pytest.mark.long


def intruders(deployment, folder):
    """Return by name the options of nodes that do not use a registered key over TLS."""
    registered, trusted = deployment.folder / "node-0", deployment.folder / "ca.crt"
    write_certificates(folder, ["127.0.0.1"])
    write_key(folder / "unknown")
    shutil.copy(registered, folder / "stolen")
    secure, key = ("--root-certificates", trusted), "--auth-supernode-private-key"
    return {
        "unregistered-key": (*secure, key, folder / "unknown"),
        "no-key": secure,
        "wrong-authority": ("--root-certificates", folder / "ca.crt", key, folder / "stolen"),
        "plain-http": ("--insecure", "--max-retries", "1"),
    }


LOG_LINES = {
    "unregistered-key": "[code: 2004] Failed to activate SuperNode",
    "no-key": "All SuperNodes must be registered via the CLI",
    "wrong-authority": "CERTIFICATE_VERIFY_FAILED",
    "plain-http": "could not establish a connection",  # The server resets or closes it.
}


def test_nodes_without_a_registered_key_are_refused_and_get_no_message(deployment, tmp_path):
    """An honest party trains; the intruders run nodes of the same app as parties 1 to 4."""
    (tmp_path / "other").mkdir()
    deployment.start(parties=1)
    for k, (name, options) in enumerate(intruders(deployment, tmp_path / "other").items(), 1):
        deployment.start_process(
            name, BIN / "flower-supernode", "--superlink", f"127.0.0.1:{deployment.port}", *options,
            "--node-config", f"partition-id={k} num-partitions=5", "--port", free_port(),
        )  # fmt: skip
    for name, line in LOG_LINES.items():
        deployment.wait_until(lambda name=name, line=line: line in deployment.read_log(name), name)
    result = deployment.result(deployment.train(rounds=2, least=1))
    assert (result["done"], result["dropped"], len(result["models"])) == (2, [], 1)
    assert [path.name for path in deployment.parties.iterdir()] == ["0"]
    for name in LOG_LINES:
        assert "SuperNode ID" not in deployment.read_log(name)
        assert "Receiving" not in deployment.read_log(name)
    listed = deployment.flwr("supernode", "list", CONNECTION, "--format", "json")
    (node,) = json.loads(listed[listed.index("{") :])["nodes"]
    assert node["status"] == "online"
