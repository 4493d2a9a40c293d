"""Certificates that strangers show: whatever is wrong with one is refused as the door says, and
never an exception of the library's, which nobody expects."""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from filters import Refused
from gateway.security.certificate_authorities import read_authority, roots_in
from gateway.security.certificate_proofs import CertificateProofs
from gateway.security.identities import parse_identities
from mediation.certificates import read_certificate, read_certificates
from mediation.discovery.identifiers import Role
from mediation.discovery.signatures import Trust as DiscoveryTrust
from mediation.discovery.signatures import Verifier, read_anchors
from mediation.event_signatures import EventVerifier, read_trusted_signers
from mediation.event_signatures.content import TYPE
from mediation.ws_security import read_trust

NOW = datetime.now(UTC)
pytestmark = [  # The library warns of some.
    pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attribute's length:UserWarning"),
]


def made() -> bytes:
    """A certificate of an authority's own, in DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Harbour")])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(5)
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=9))
        .add_extension(x509.BasicConstraints(True, None), True)
        .add_extension(usage, True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("harbour.example")]), False)
        .sign(key, SHA256())
    )
    return certificate.public_bytes(Encoding.DER)


CERTIFICATE = made()
PEM = x509.load_der_x509_certificate(CERTIFICATE).public_bytes(Encoding.PEM)


def spoilt() -> Iterator[bytes]:
    """The certificate with each of its bytes changed, in some ways, and cut off there."""
    for at, octet in enumerate(CERTIFICATE):
        for other in {octet ^ 1, octet ^ 0x80, (octet + 3) % 256, 0, 0xFF} - {octet}:
            yield CERTIFICATE[:at] + bytes([other]) + CERTIFICATE[at + 1 :]
        yield CERTIFICATE[:at]


def events(_: Path) -> Callable[[bytes], object]:
    verifier = EventVerifier(read_trusted_signers(PEM))

    def verify(der: bytes) -> object:
        header = {
            "typ": TYPE, "time": NOW.isoformat(), "id": "1", "cty": "xml",
            "x5c": [b64encode(der).decode()],
        }  # fmt: skip
        said = urlsafe_b64encode(json.dumps(header).encode()).decode().rstrip("=")
        return verifier.verify(f"{said}..AAAA", b"<a/>", now=NOW, wrapped=True)

    return verify


def discovery(_: Path) -> Callable[[bytes], object]:
    verifier = Verifier(DiscoveryTrust(entities=read_anchors(PEM)))
    return lambda der: verifier._signer((der,), Role.ENTITY, NOW)


def signed_messages(_: Path) -> Callable[[bytes], object]:
    trust = read_trust(PEM)
    return lambda der: trust.check((der,), NOW)


def identities(folder: Path) -> Callable[[bytes], object]:
    path = folder / "identities.toml"
    return CertificateProofs(parse_identities(b"", path), folder).identity


def authorities(folder: Path) -> Callable[[bytes], object]:
    """As `identities`, where an authority has a row."""
    path = folder / "identities.toml"
    (folder / "port.pem").write_bytes(PEM)
    rows = b"[[authorities]]\nname = 'port'\nfile = 'port.pem'\n"
    return CertificateProofs(parse_identities(rows, path), folder).identity


DOORS: dict[str, Callable[[Path], Callable[[bytes], object]]] = {
    "signed events": events,
    "topic discovery": discovery,
    "signed messages": signed_messages,
    "mutual TLS": identities,
    "mutual TLS, with authorities": authorities,
}


@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_certificate_is_refused(door: str, tmp_path: Path) -> None:
    show, refused = DOORS[door](tmp_path), 0
    for der in spoilt():
        try:
            refused += show(der) is None
        except Refused:
            refused += 1
    assert refused > 500


def test_an_authority_that_cannot_be_read_raises_one_kind_of_error(tmp_path: Path) -> None:
    """So that a file of it that is exchanged does not end the gateway."""
    refused = 0
    for der in spoilt():
        file = b"-----BEGIN CERTIFICATE-----\n%s\n-----END CERTIFICATE-----\n" % b64encode(der)
        (tmp_path / "port.pem").write_bytes(file)
        roots_in([tmp_path / "port.pem"])
        try:
            read_authority("port", (tmp_path / "port.pem").read_bytes())
        except ValueError:
            refused += 1
    assert refused > 500


@pytest.mark.parametrize("pem", [False, True])
def test_reading_one_raises_one_kind_of_error(pem: bool) -> None:
    refused = 0
    for der in spoilt():
        text = b64encode(der)
        file = b"-----BEGIN CERTIFICATE-----\n%s\n-----END CERTIFICATE-----\n" % text
        try:
            read_certificates(file) if pem else read_certificate(der)
        except ValueError:
            refused += 1
    assert refused > 500


def test_nobody_else_reads_any() -> None:
    """The library's own functions raise what only `mediation.certificates` knows."""
    root = Path(__file__).parents[2]
    reading = [
        str(file.relative_to(root))
        for room in ("dragoman", "gateway", "adapters", "mediation", "filters")
        for file in (root / room).rglob("*.py")
        if "load_der_x509_certificate" in (text := file.read_text())
        or "load_pem_x509_certificate" in text
    ]
    assert reading == ["mediation/certificates.py"]
