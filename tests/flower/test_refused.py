"""Who is not let in: no key, another key, another authority, no TLS. In real processes."""

import json
import shutil

import pytest

from fedplus.flower.certificates import write_certificates, write_key
from fedplus.flower.local_deployment import BIN, CONNECTION
from fedplus.flower.processes import free_port

pytestmark = pytest.mark.long


def intruders(deployment, folder):
    """By name: what each offers in the place of a registered key over TLS."""
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


SAID = {
    "unregistered-key": "[code: 2004] Failed to activate SuperNode",
    "no-key": "All SuperNodes must be registered via the CLI",
    "wrong-authority": "CERTIFICATE_VERIFY_FAILED",
    "plain-http": "could not establish a connection",  # Reset, or closed without an answer.
}


def test_those_without_a_registered_key_are_refused_and_get_no_message(deployment, tmp_path):
    """While an honest party trains; the intruders run the same app's node, as parties 1 to 4."""
    (tmp_path / "other").mkdir()
    deployment.begin(parties=1)
    for k, (name, offered) in enumerate(intruders(deployment, tmp_path / "other").items(), 1):
        deployment.start(
            name, BIN / "flower-supernode", "--superlink", f"127.0.0.1:{deployment.port}", *offered,
            "--node-config", f"partition-id={k} num-partitions=5", "--port", free_port(),
        )  # fmt: skip
    for name, said in SAID.items():
        deployment.wait(lambda name=name, said=said: said in deployment.log(name), name)
    told = deployment.told(deployment.train(rounds=2, least=1))
    assert (told["done"], told["dropped"], len(told["models"])) == (2, [], 1)
    assert [path.name for path in deployment.parties.iterdir()] == ["0"]
    for name in SAID:
        assert "SuperNode ID" not in deployment.log(name)
        assert "Receiving" not in deployment.log(name)
    listed = deployment.flwr("supernode", "list", CONNECTION, "--format", "json")
    (node,) = json.loads(listed[listed.index("{") :])["nodes"]
    assert node["status"] == "online"
