"""A real deployment on loopback: SuperLink, SuperNodes, TLS, node keys, each a process of its own."""

import contextlib
import datetime
import ipaddress
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
APP = Path(__file__).parent / "app"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Deployment:
    """Starts and stops the processes, and keeps what they write."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = {}
        self.port = free_port()
        self.env = os.environ | {
            "FLWR_HOME": str(folder / "flwr"), "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1", "JAX_PLATFORMS": "cpu",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }  # fmt: skip
        (folder / "flwr").mkdir(parents=True)
        certificates(folder)
        (folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "loop"\n[superlink.loop]\n'
            f'address = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{folder / "ca.crt"}"\n'
        )

    def start(self, name, *command):
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(
            [*map(str, command)], env=self.env, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        log.close()

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name):
        """SIGKILL to the process and all that it started."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self):
        for name in list(self.processes):
            self.kill(name)

    def superlink(self):
        self.start(
            "superlink", BIN / "flower-superlink",
            "--host", "127.0.0.1", "--port", self.port,
            "--ssl-certfile", self.folder / "server.pem", "--ssl-keyfile", self.folder / "server.key",
            "--ssl-ca-certfile", self.folder / "ca.crt", "--enable-supernode-auth",
            "--database", self.folder / "state.db",
        )  # fmt: skip
        self.wait(lambda: reachable(self.port), "superlink")

    def key(self, k):
        """A node's key pair, as ssh-keygen -t ecdsa -b 384 makes it."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        path, key = self.folder / f"node-{k}", ec.generate_private_key(ec.SECP384R1())
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH,
                serialization.NoEncryption(),
            )
        )  # fmt: skip
        path.with_suffix(".pub").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
            )
        )
        return path

    def register(self, key):
        self.flwr("supernode", "register", f"{key}.pub", "loop", "--format", "json")

    def supernode(self, k, key):
        """A party's node, started again whenever it ends, as systemd does."""
        node = [
            BIN / "flower-supernode", "--superlink", f"127.0.0.1:{self.port}",
            "--root-certificates", self.folder / "ca.crt", "--auth-supernode-private-key", key,
            "--node-config", f"partition-id={k} num-partitions=2", "--port", free_port(),
        ]  # fmt: skip
        command = shlex.join(map(str, node))
        self.start(f"node-{k}", "/bin/sh", "-c", f"while true; do {command}; sleep 2; done")

    def flwr(self, *arguments):
        done = subprocess.run(
            [str(BIN / "flwr"), *map(str, arguments)], env=self.env, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, **config):
        """Submit the app; its run's id."""
        given = " ".join(f"{k}={json.dumps(v)}" for k, v in config.items())
        told = self.flwr("run", APP, "loop", "-c", given, "--format", "json")
        return json.loads(told[told.index("{") :])["run-id"]

    def status(self, run):
        told = self.flwr("list", "--run-id", run, "loop", "--format", "json")
        return json.loads(told[told.index("{") :])["runs"][0]["status"]

    def wait(self, ready, about, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if ready():
                return
            time.sleep(0.3)
        logs = "\n".join(f"== {p.name}\n{p.read_text()[-3000:]}" for p in self.folder.glob("*.log"))
        raise AssertionError(f"{about} took over {seconds} s\n{logs}")


def reachable(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def certificates(folder):
    """A certificate authority for this test alone, and the server's certificate for 127.0.0.1."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)

    def made(name, key, issuer, signer, *extensions):
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(signer, hashes.SHA256())

    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    pem = serialization.Encoding.PEM
    ca = made("ca", authority, "ca", authority, x509.BasicConstraints(ca=True, path_length=None))
    local = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    (folder / "ca.crt").write_bytes(ca.public_bytes(pem))
    (folder / "server.pem").write_bytes(
        made("server", server, "ca", authority, local).public_bytes(pem)
    )
    (folder / "server.key").write_bytes(
        server.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )  # fmt: skip
