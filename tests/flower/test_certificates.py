"""Certificates are valid for strict clients, also in one file with a renewed authority."""

import socket
import ssl
import subprocess
import sys
import threading

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from fedplus.check import SettingError
from fedplus.flower.certificates import write_certificates

HOSTS = ["server.example.org", "localhost", "127.0.0.1"]


@pytest.fixture(scope="module")
def renewed(tmp_path_factory):
    """Write certificates to ``old`` and ``new``, and bundles of both authorities in both orders."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("old", "new"):
        write_certificates(folder / name, HOSTS)
    old, new = ((folder / name / "ca.crt").read_bytes() for name in ("old", "new"))
    (folder / "old-new.crt").write_bytes(old + new)
    (folder / "new-old.crt").write_bytes(new + old)
    return folder


every_server = pytest.mark.parametrize("server", ["old", "new"])
every_bundle = pytest.mark.parametrize("bundle", ["old-new.crt", "new-old.crt"])


@every_server
@every_bundle
def test_openssl_verifies_both_servers_strictly(renewed, server, bundle):
    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname",
         "server.example.org", "-CAfile", renewed / bundle, renewed / server / "server.pem"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@every_server
@every_bundle
def test_a_strict_client_connects_to_both_servers(renewed, server, bundle):
    """``VERIFY_X509_STRICT`` and ``VERIFY_X509_PARTIAL_CHAIN`` are Python 3.13's defaults."""
    context = ssl.create_default_context(cafile=renewed / bundle)
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    with serving(renewed / server) as port:
        for host in ("localhost", "127.0.0.1"):
            with (
                socket.create_connection(("127.0.0.1", port), 10) as plain,
                context.wrap_socket(plain, server_hostname=host) as secure,
            ):
                assert secure.version() == "TLSv1.3"
                assert secure.recv(2) == b"ok"


def test_an_authority_alone_verifies_its_own_server_only(renewed):
    context = ssl.create_default_context(cafile=renewed / "old" / "ca.crt")
    with (
        serving(renewed / "new") as port,
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


class serving:
    """A TLS server on a port of this machine that sends ``ok`` to every client."""

    def __init__(self, folder):
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(folder / "server.pem", folder / "server.key")
        self.socket = socket.create_server(("127.0.0.1", 0))

    def __enter__(self):
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        return self.socket.getsockname()[1]

    def _serve(self):
        while True:
            try:
                plain, _ = self.socket.accept()
            except OSError:  # The socket is closed because the test has ended.
                return
            try:
                with self.context.wrap_socket(plain, server_side=True) as secure:
                    secure.sendall(b"ok")
            except (ssl.SSLError, ConnectionError):  # The client has refused the certificate.
                plain.close()

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


def test_extensions_follow_rfc_5280(renewed):
    pairs = []
    for name in ("old", "new"):
        root, server = (
            x509.load_pem_x509_certificate((renewed / name / file).read_bytes())
            for file in ("ca.crt", "server.pem")
        )
        pairs.append((root, server))
        assert extension(root, x509.BasicConstraints) == (x509.BasicConstraints(True, 0), True)
        assert extension(server, x509.BasicConstraints) == (
            x509.BasicConstraints(False, None),
            True,
        )
        usage, critical = extension(root, x509.KeyUsage)
        assert critical
        assert set_bits(usage) == {"key_cert_sign", "crl_sign"}
        usage, critical = extension(server, x509.KeyUsage)
        assert critical
        assert set_bits(usage) == {"digital_signature"}
        purposes, _ = extension(server, x509.ExtendedKeyUsage)
        assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
        own, critical = extension(root, x509.SubjectKeyIdentifier)
        assert not critical
        for signed in (root, server):
            issuer, critical = extension(signed, x509.AuthorityKeyIdentifier)
            assert (issuer.key_identifier, critical) == (own.digest, False)
        assert extension(server, x509.SubjectKeyIdentifier)[0].digest != own.digest
        assert server.issuer == root.subject == root.issuer
    assert pairs[0][0].subject != pairs[1][0].subject


def extension(certificate, kind):
    found = certificate.extensions.get_extension_for_class(kind)
    return found.value, found.critical


def set_bits(usage):
    """Return the set bits of a key usage, except those that need key agreement."""
    bits = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign",
    )  # fmt: skip
    return {bit for bit in bits if getattr(usage, bit)}


@pytest.mark.parametrize(
    "host",
    [
        "", " ", "server example", "server/admin", "https://server.example.org", "a\nb", "server:8000",
        "-server", "server-", "a..b", ".server", "a" * 64 + ".org", ".".join(["a" * 60] * 5),
        "sérver.org", "under_score.org", "*.example.org", "10.0.0.256", "1.2.3", "server.example.org.",
        "[::1]", "fe80::1%eth0", 7,
    ],
)  # fmt: skip
def test_an_invalid_host_is_refused_in_one_line(tmp_path, host):
    with pytest.raises(SettingError) as error:
        write_certificates(tmp_path / "certificates", ["server.example.org", host])
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("hosts must be ")
    assert repr(host) in message
    assert not (tmp_path / "certificates").exists()


@pytest.mark.parametrize(
    "host", ["localhost", "xn--srver-bsa.org", "10.0.0.7", "::1", "a" * 63 + ".org", "3com.org"],
)  # fmt: skip
def test_a_valid_host_is_accepted(tmp_path, host):
    write_certificates(tmp_path, [host])
    assert (tmp_path / "server.pem").exists()


def test_a_long_host_name_is_accepted(tmp_path):
    """X.509 allows 64 characters for a common name; host names may have 253."""
    host = ".".join(["a" * 60] * 4)
    write_certificates(tmp_path, [host])
    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-verify_hostname", host, "-CAfile",
         tmp_path / "ca.crt", tmp_path / "server.pem"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_of_a_new_app_refuses_an_invalid_host(tmp_path):
    from fedplus.new import write_app

    write_app(tmp_path / "meters", "numpy")
    done = subprocess.run(
        [sys.executable, "certificates.py", "server/admin"], cwd=tmp_path / "meters",
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "hosts must be " in done.stderr
    assert "Traceback" not in done.stderr
