"""Private layers in a real deployment with TLS: what crosses the network, and what the server has."""

import socket
import threading

import numpy as np
import pytest
from app_deployment import run_in_process
from private_entries import contains

from fedplus.flower.processes import HOST

pytestmark = pytest.mark.long
PARTIES, ROUNDS, ENTRIES = 2, 3, 50_000


class Relay:
    """Passes connections on to a port and counts the bytes of both directions."""

    def __init__(self, port):
        self.target, self.upward, self.downward = port, 0, 0
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.start(self.accept)

    @staticmethod
    def start(function, *args):
        threading.Thread(target=function, args=args, daemon=True).start()

    def accept(self):
        while True:
            try:
                party, _ = self.listener.accept()
                server = socket.create_connection((HOST, self.target))
            except OSError:
                return
            self.start(self.copy, party, server, "upward")
            self.start(self.copy, server, party, "downward")

    def copy(self, source, target, direction):
        with source, target:
            try:
                while data := source.recv(1 << 16):
                    setattr(self, direction, getattr(self, direction) + len(data))
                    target.sendall(data)
            except OSError:
                return


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_private_layers_do_not_cross_the_network(deployment, tmp_path):
    deployment.start_superlink()
    relay = Relay(deployment.port)
    for k in range(PARTIES):
        key = deployment.register_key(k)
        deployment.start_supernode(k, key, relay.port, num_partitions=PARTIES)

    def train(method):
        deployment.server = tmp_path / f"server-{method}"
        before = np.array([relay.upward, relay.downward])
        result = deployment.result(deployment.train(rounds=ROUNDS, task="personal", method=method))
        assert (result["done"], result["skipped"], result["dropped"]) == (ROUNDS, 0, [])
        return result, (np.array([relay.upward, relay.downward]) - before) / (PARTIES * ROUNDS)

    result, private = train("fedper")
    expected = run_in_process(
        tmp_path / "here", ROUNDS, PARTIES, task="personal", method="fedper"
    ).state.w_global
    np.testing.assert_allclose(result["w_global"], expected, atol=1e-6)
    folders = (deployment.server, *deployment.folder.glob("superlink*"))
    files = [p for folder in folders for p in (folder, *folder.rglob("*")) if p.is_file()]
    assert {"superlink.db", "superlink.log", "rounds.jsonl"} <= {p.name for p in files}
    content = b"".join(path.read_bytes() for path in files)
    assert contains(content, expected)
    for k in range(PARTIES):
        for before in (ROUNDS, ROUNDS + 1):
            head = deployment.party_checkpoint(k, before).arrays["private/head/weight"]
            assert head.size == ENTRIES
            assert not contains(content, head[:200])
            assert not contains(content, head[-200:])
    _, everything = train("fedavg")
    print(f"bytes a round and party over TLS, up and down: {everything}, with private: {private}")
    assert (everything - private > 3.9 * ENTRIES).all()
    assert (private < 0.5 * 4 * ENTRIES).all()
