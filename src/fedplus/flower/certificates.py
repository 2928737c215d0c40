"""Certificates and node keys for a federation of one's own: TLS for the server, a key for each party.

For trials and for small consortia that have no certificate authority. Where there is one, have it sign
the server's certificate and give the parties its root certificate.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedplus._check import require, require_whole
from fedplus._write import SHARED, write_atomically

AUTHORITY, CERTIFICATE, KEY = "ca.crt", "server.pem", "server.key"
SECRET = 0o600


def write_certificates(folder: Path, hosts: Sequence[str], days: int = 90) -> None:
    """A new authority's certificate (``ca.crt``), and the server's (``server.pem``, ``server.key``).

    The authority's own key is not kept: nobody can sign another certificate with it.

    Args:
        folder: Where to.
        hosts: The names and addresses under which parties reach the server.
        days: How long both are valid.
    """
    require(len(hosts) > 0, "hosts", "none", "the server's names or addresses")
    require_whole("days", days)
    folder.mkdir(parents=True, exist_ok=True)
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = (
        _certificate("fedplus authority", authority, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([_name(host) for host in hosts])
    signed = (
        _certificate(hosts[0], server, days)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority, hashes.SHA256())
    )
    write_atomically(folder / KEY, _private(server, serialization.PrivateFormat.PKCS8), SECRET)
    write_atomically(folder / CERTIFICATE, signed.public_bytes(serialization.Encoding.PEM), SHARED)
    write_atomically(folder / AUTHORITY, root.public_bytes(serialization.Encoding.PEM), SHARED)


def write_key(path: Path) -> None:
    """A party's key, and beside it the public one (``.pub``): as ``ssh-keygen -t ecdsa -b 384``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    write_atomically(path, _private(key, serialization.PrivateFormat.OpenSSH), SECRET)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    write_atomically(public_of(path), public, SHARED)


def public_of(path: Path) -> Path:
    """Where the public part of a party's key is."""
    return path.with_name(f"{path.name}.pub")


def _certificate(name: str, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedplus authority")])
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: ec.EllipticCurvePrivateKey, kind: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
