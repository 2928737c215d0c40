"""Creates TLS certificates for the server and a node key for each party.

They are meant for trials and for small consortia without a certificate authority. If you have an
authority, let it sign the server's certificate, and give its root certificate to the parties.
"""

import datetime
import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedplus.check import require, require_integer
from fedplus.files import PRIVATE, SHARED, write_atomically

AUTHORITY, CERTIFICATE, KEY = "ca.crt", "server.pem", "server.key"
"""File names of the authority's certificate, the server's certificate and the server's key."""
LABEL = re.compile("[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
VALID_HOSTS = "host names such as server.example.org or IP addresses such as 10.0.0.7"
ADVICE = "Leave out the scheme, port and path; write international names in ASCII form (xn--...)."
KEY_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
    "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


def write_certificates(folder: Path, hosts: Sequence[str], days: int = 90) -> None:
    """Write an authority's certificate, and a server's certificate and key signed by it.

    The files are ``ca.crt``, ``server.pem`` and ``server.key``. The authority's own key is discarded,
    so that nobody can sign another certificate with it. Every call creates an authority with a new
    name and key: a file with the certificates of two authorities verifies the servers of both.

    Args:
        folder: The folder to write to. It is created if it does not exist.
        hosts: Names and addresses under which parties reach the server.
        days: The number of days for which the certificates are valid.

    Raises:
        SettingError: There is no host, a host is not a valid name or address, or ``days`` is not a
            positive whole number.
    """
    require(len(hosts) > 0, "hosts", "none", "the server's names or addresses")
    require_integer("days", days)
    names = [_general_name(host) for host in hosts]
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = f"fedplus authority {identifier.digest.hex()[:16]}"
    root = (
        _certificate(authority, authority_key, authority, identifier, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        _certificate("fedplus server", server_key, authority, identifier, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = _private_bytes(server_key, serialization.PrivateFormat.PKCS8)
    write_atomically(folder / KEY, private, PRIVATE)
    write_atomically(folder / CERTIFICATE, server.public_bytes(serialization.Encoding.PEM), SHARED)
    write_atomically(folder / AUTHORITY, root.public_bytes(serialization.Encoding.PEM), SHARED)


def write_key(path: Path) -> None:
    """Write a new key for a party, as ``ssh-keygen -t ecdsa -b 384`` does.

    Args:
        path: The file for the private key. The public key goes to the same name with ``.pub``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    write_atomically(path, _private_bytes(key, serialization.PrivateFormat.OpenSSH), PRIVATE)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    write_atomically(public_key_path(path), public, SHARED)


def public_key_path(path: Path) -> Path:
    """Return the path of the public key that belongs to a private key."""
    return path.with_name(f"{path.name}.pub")


def _certificate(
    subject: str, key: ec.EllipticCurvePrivateKey, issuer: str, issuer_id: x509.SubjectKeyIdentifier,
    days: int,
) -> x509.CertificateBuilder:  # fmt: skip
    """Return a certificate with names, key, validity and key identifiers.

    The certificates of the authority and of the server both have these parts.
    """
    now = datetime.datetime.now(datetime.UTC)
    own_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    signer_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id)
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(subject))
        .issuer_name(_common_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(own_id, critical=False)
        .add_extension(signer_id, critical=False)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(**allowed: bool) -> x509.KeyUsage:
    """Return a key usage with these bits set and all others clear."""
    return x509.KeyUsage(**(dict.fromkeys(KEY_USAGES, False) | allowed))


def _general_name(host: str) -> x509.GeneralName:
    """Return a host as an IP address or a DNS name, as a certificate lists it.

    Raises:
        SettingError: The host is neither an IP address nor a DNS name.
    """
    require(isinstance(host, str) and _is_host(host), "hosts", repr(host), VALID_HOSTS, ADVICE)
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _is_host(host: str) -> bool:
    labels = host.split(".")
    if ":" in host or labels[-1].isdecimal():
        return _is_address(host)
    return len(host) <= 253 and all(LABEL.fullmatch(label) for label in labels)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host  # A certificate cannot hold the zone of a link-local address.


def _private_bytes(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
