"""Signers of messages, with certificates of a private authority, and envelopes that they sign."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from lxml import etree

from mediation.names import WSSE, WSU
from mediation.ws_security import Trust, read_trust
from mediation.ws_security.signing import SigningKey, read_signing_key, sign_envelope
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import S12, WSA10, fresh_id

ENVELOPE = (
    f'<s:Envelope xmlns:s="{S12.value}" xmlns:wsa="{WSA10}"><s:Header>{{headers}}</s:Header>'
    "<s:Body>{body}</s:Body></s:Envelope>"
)


def envelope(body: str = '<e xmlns="urn:e">1</e>', headers: str | None = None) -> bytes:
    """An envelope with headers of WS-Addressing."""
    if headers is None:
        headers = f"<wsa:MessageID>{fresh_id()}</wsa:MessageID><wsa:Action>urn:e</wsa:Action>"
    return ENVELOPE.format(headers=headers, body=body).encode()


@dataclass
class Signers:
    """An authority, and who has a certificate of it."""

    authority: Authority
    files: Mapping[str, tuple[Path, Path]]

    @classmethod
    def make(cls, folder: Path, *names: str) -> "Signers":
        authority = Authority(folder)
        return cls(authority, {name: authority.issue(name) for name in names})

    @cached_property
    def trust(self) -> Trust:
        return read_trust(self.authority.certificate.read_bytes())

    def key(self, name: str) -> SigningKey:
        certificate, key = self.files[name]
        return read_signing_key(key.read_bytes(), certificate.read_bytes())

    def signed(self, name: str, octets: bytes, *, now: datetime | None = None) -> bytes:
        """*octets*, signed by *name*."""
        return sign_envelope(octets, self.key(name), unique="u", now=now or datetime.now(UTC))


def part(root: etree._Element, name: str) -> etree._Element:
    """The only element with a local *name*."""
    [found] = [one for one in root.iter(etree.Element) if etree.QName(one).localname == name]
    return found


NAMESPACES = {"s": S12.value, "wsa": WSA10, "wsse": WSSE, "wsu": WSU}


def rsa_pair(folder: Path, name: str, *, usage: x509.KeyUsage | None = None) -> tuple[Path, Path]:
    """The files of a certificate with an RSA key that nobody else signed, and of that key. *usage*:
    what it is certified for, if that is said."""
    key = rsa.generate_private_key(65537, 2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if usage is not None:
        builder = builder.add_extension(usage, critical=True)
    certificate = builder.sign(key, SHA256())
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files
