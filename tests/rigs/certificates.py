"""Certificates for a test's own servers and clients, as private authorities issue them: most without
identifiers of keys.
"""

import inspect
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.security.tls import client_context


class Authority:
    """Issues certificates into *folder*; its own is ``<name>.pem`` there.

    With *strict* they have all that RFC 5280 asks for, as contexts that Python makes by default
    demand from 3.13 on (``VERIFY_X509_STRICT``).
    """

    def __init__(self, folder: Path, name: str = "authority", *, strict: bool = False) -> None:
        self._folder = folder
        self._is_strict = strict
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(
            _pem(self._sign(self._name, self._key.public_key(), timedelta(days=30), authority=True))
        )

    def issue(
        self, *names: str, file: str = "", days: float = 20, password: str = "", since: float = -60
    ) -> tuple[Path, Path]:
        """The files of a certificate for *names*, which are hosts or addresses, and of its key.

        Args:
            days: Until it expires; below zero it has.
            since: Days until it begins to be valid.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._folder / f"{file or names[0]}.pem"
        certificate.write_bytes(
            _pem(
                self._sign(
                    _named(names[0]), key.public_key(), timedelta(days=days), names, since=since
                )
            )
        )
        locked: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            locked = serialization.BestAvailableEncryption(password.encode())
        key_file = self._folder / f"{file or names[0]}.key"
        key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
        )
        return certificate, key_file

    def revocation_list(self, *certificates: Path, days: float = 7) -> bytes:
        """A list (PEM) with *certificates*, the next of which is due in *days*."""
        revoked = [x509.load_pem_x509_certificate(path.read_bytes()) for path in certificates]
        return revocation_list(self._name, self._key, revoked, days=days)

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePublicKey,
        lifetime: timedelta,
        hosts: tuple[str, ...] = (),
        *,
        authority: bool = False,
        since: float = -60,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=since))
            .not_valid_after(now + lifetime)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if hosts:
            alternatives = x509.SubjectAlternativeName([_general(host) for host in hosts])
            builder = builder.add_extension(alternatives, critical=False)
        if self._is_strict:
            builder = self._add_identifiers(builder, key, authority)
        return builder.sign(self._key, hashes.SHA256())

    def _add_identifiers(
        self, builder: x509.CertificateBuilder, key: ec.EllipticCurvePublicKey, authority: bool
    ) -> x509.CertificateBuilder:
        usage = dict.fromkeys(inspect.signature(x509.KeyUsage).parameters, False)
        usage["key_cert_sign" if authority else "digital_signature"] = True
        own = x509.SubjectKeyIdentifier.from_public_key(key)
        issuers = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            builder.add_extension(x509.KeyUsage(**usage), critical=True)
            .add_extension(own, critical=False)
            .add_extension(issuers, critical=False)
        )


def revocation_list(
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    revoked: Iterable[x509.Certificate] = (),
    *,
    days: float = 7,
    age: float = 1,
    extensions: Iterable[tuple[x509.ExtensionType, bool]] = (),
) -> bytes:
    """A list of *revoked* certificates (PEM).

    Args:
        days: Until the next one is due; below zero it was.
        age: Days since it was made.
        extensions: Each with whether it is critical.
    """
    now = datetime.now(UTC)
    made, due = now - timedelta(days=age), now + timedelta(days=days)
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer)
    builder = builder.last_update(min(made, due - timedelta(days=1))).next_update(due)
    for one in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(one.serial_number)
        builder = builder.add_revoked_certificate(entry.revocation_date(made).build())
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def server_context(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A context for a server named *host*, and one for clients that trust it alone.

    Its key, and its certificate that nobody else signed, are in ``server.pem`` then.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named(host)
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain = folder / "server.pem"
    chain.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + _pem(certificate)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain)
    return server, client_context(ca=chain)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
