"""``dragoman topics keys``."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, OutputOption
from gateway.cli.output import facts, json_line, line, moment

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import rsa


def keys(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call the entity.")],
    key: Annotated[
        Path, typer.Option(metavar="FILE", help="The key; made if it is not there.")
    ] = Path("entity.key"),
    certificate: Annotated[
        Path, typer.Option(metavar="FILE", help="The certificate, which must not be there.")
    ] = Path("entity.pem"),
    days: Annotated[
        int, typer.Option(min=1, max=3650, help="How long the certificate is valid.")
    ] = 365,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Make the key of an entity or a node, and a certificate that it signs itself; print the
    identifiers that the key gives to either.

    A node believes such a certificate by its fingerprint (`entity_fingerprints`). The identifier
    stays the same when the certificate is renewed for the same key.

    \b
    Examples:
      dragoman topics keys "Harbour station"
      dragoman topics keys "Harbour station" --key entity.key --certificate renewed.pem
    """
    # Imported when it is needed: it takes a while.
    from cryptography.hazmat.primitives.serialization import Encoding

    from mediation.discovery import Role, fingerprint_of, identifier_of

    if not 1 <= len(name) <= 64:
        raise CommandFailed("A name has 1 to 64 characters.", 2)
    if certificate.exists():
        raise CommandFailed(f"{certificate}: exists; name another file with --certificate.")
    certified = _certify(_key_in(key), name, datetime.now(UTC), timedelta(days=days))
    with certificate.open("xb") as file:
        file.write(certified.public_bytes(Encoding.PEM))
    made = {
        "identifier": identifier_of(certified, Role.ENTITY),
        "identifier as a node": identifier_of(certified, Role.NODE),
        "fingerprint": fingerprint_of(certified),
        "key": str(key),
        "certificate": str(certificate),
        "valid until": moment(certified.not_valid_after_utc.isoformat()),
    }
    if output is Form.JSON:
        json_line(made)
        return
    for text in facts(made.items()):
        line(text)


def _key_in(path: Path) -> "rsa.RSAPrivateKey":
    """The key in a file, which is made where there is none."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        try:
            known = load_pem_private_key(path.read_bytes(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise CommandFailed(f"{path}: no key in PEM without a password.") from error
        if not isinstance(known, rsa.RSAPrivateKey) or known.key_size < 2048:
            raise CommandFailed(f"{path}: no RSA key of 2048 bits at least.") from None
        return known
    with os.fdopen(descriptor, "wb") as file:
        made = rsa.generate_private_key(65537, 3072)
        file.write(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return made


def _certify(
    key: "rsa.RSAPrivateKey", name: str, begins: datetime, lifetime: timedelta
) -> "x509.Certificate":
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = dict.fromkeys(
        (
            "content_commitment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(named)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins - timedelta(minutes=5))  # Clocks differ.
        .not_valid_after(begins + lifetime)
        .add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_encipherment=True, **usage), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
