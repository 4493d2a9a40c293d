"""Signers of events, and who is believed to be one."""

from datetime import UTC, datetime
from functools import cache

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from mediation.discovery import Credentials
from mediation.event_signatures import EventSigner, EventVerifier, read_trusted_signers
from tests.rigs.discovery_keys import Authority, ec_key, root

NAME = "North mole"


@cache
def authority() -> Authority:
    return root("Authority of moles", ec_key("authority of moles"))


@cache
def credentials(name: str = NAME) -> Credentials:
    return authority().credentials(name, ec_key(name))


def signer(name: str = NAME) -> EventSigner:
    return EventSigner(credentials(name))


def pem(*of: Credentials) -> bytes:
    """The certificates of these in PEM, of the authority without any."""
    certificates = [one.certificate for one in of] or [authority().certificate]
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def key_pem(of: Credentials) -> bytes:
    return of.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@cache
def verifier(*of: Credentials) -> EventVerifier:
    return EventVerifier(read_trusted_signers(pem(*of)))


def now() -> datetime:
    return datetime.now(UTC)
