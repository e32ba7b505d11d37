"""Keys and certificates of a federation: made here, on the machine that they belong to, and never sent.

A node has two keys. Its *signing key* (Ed25519) is who it is in a secure sum: the registry lists its public half. Its
*transport key* (ECDSA P-384) is how its SuperNode logs in at the SuperLink; that proves the node to the server only.
The operator has a signing key too (for the registry and for runs), and a certificate authority for the server's TLS.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sordino.aggregate.secure.keys import Identity
from sordino.errors import FederationError
from sordino.files import PRIVATE, PUBLIC, replace_file

_EARLIER = timedelta(days=1)
"""How much earlier a certificate begins, so that a machine whose clock is behind can still use it."""


def make_identity(path: Path) -> Identity:
    """Makes a signing key, writes it for its owner alone, and returns it."""
    key = Ed25519PrivateKey.generate()
    replace_file(path, _pem(key), PRIVATE)
    return Identity(key)


def load_identity(path: Path) -> Identity:
    """Reads a signing key.

    Raises:
        FederationError: it is missing, of another kind, or open to others than its owner.
    """
    key = serialization.load_pem_private_key(_private_bytes(path), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise FederationError(f"key {path} is not an Ed25519 key: restore the one that was made here")
    return Identity(key)


def make_transport_key(path: Path) -> bytes:
    """Makes a SuperNode's login key (`path`, and `path` with .pub beside it); returns the public half as OpenSSH."""
    key = ec.generate_private_key(ec.SECP384R1())
    ssh = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    own = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    replace_file(path, own, PRIVATE)
    replace_file(path.with_suffix(".pub"), ssh + b"\n", PUBLIC)
    return ssh


def transport_fingerprint(ssh: str) -> str:
    """Returns the SHA-256 of a SuperNode's public login key, in hex: how the registry names it.

    Raises:
        FederationError: it is not a public ECDSA P-384 key.
    """
    try:
        key = serialization.load_ssh_public_key(ssh.encode())
    except (ValueError, UnicodeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise FederationError("a member's transport key is not ECDSA P-384: send the one that `sordino node init` made")
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


@dataclass(frozen=True)
class Authority:
    """The federation's own certificate authority, for the server's TLS certificate and nothing else."""

    certificate: Path
    key: Path

    def make(self, name: str, days: int = 3650) -> None:
        """Makes the authority's key and certificate."""
        key = ec.generate_private_key(ec.SECP384R1())
        subject = _named(f"{name} certificate authority")
        built = (
            _builder(subject, subject, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(key_cert_sign=True), critical=True)
            .sign(key, hashes.SHA384())
        )
        replace_file(self.key, _pem(key), PRIVATE)
        replace_file(self.certificate, built.public_bytes(serialization.Encoding.PEM), PUBLIC)

    def issue(self, hosts: tuple[str, ...], certificate: Path, key: Path, days: int = 397) -> None:
        """Makes the server's key and certificate, for these DNS names and addresses."""
        if not hosts:
            raise FederationError("--host is missing: name the server as the nodes will, e.g. --host fed.example.org")
        signer = serialization.load_pem_private_key(_private_bytes(self.key), None)
        authority = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        own = ec.generate_private_key(ec.SECP384R1())
        built = (
            _builder(_named(hosts[0]), authority.subject, own.public_key(), days)
            .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .sign(signer, hashes.SHA384())
        )
        replace_file(key, _pem(own), PRIVATE)
        replace_file(certificate, built.public_bytes(serialization.Encoding.PEM), PUBLIC)


def valid_until(certificate: Path) -> datetime:
    """Returns when a certificate ends."""
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc


def fingerprint(certificate: Path) -> str:
    """Returns the SHA-256 of a certificate, in hex: compare it by telephone."""
    return x509.load_pem_x509_certificate(certificate.read_bytes()).fingerprint(hashes.SHA256()).hex()


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _private_bytes(path: Path) -> bytes:
    try:
        if path.stat().st_mode & 0o077:
            raise FederationError(f"key {path} can be read by others: run `chmod 600` on it")
        return path.read_bytes()
    except OSError as error:
        raise FederationError(f"key {path} cannot be read ({error.strerror}): restore it from its backup") from None
