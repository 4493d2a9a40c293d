"""Signatures of events, as commands make, check and tell them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gateway.cli.errors import CommandFailed
from gateway.client.messaging import Sign
from mediation.client import Received
from mediation.event_signatures import (
    EventVerifier,
    SignatureInvalid,
    read_signer,
    read_trusted_signers,
    topic_agrees,
)
from mediation.names import EVENT_SIGNATURE
from mediation.ws_security import SigningKey, Trust, read_key_and_certificate, read_trust


@dataclass(frozen=True, slots=True)
class Signed:
    """What is told of a notification: to people, and as JSON."""

    text: str
    record: dict[str, str | None]


class SignatureCheck:
    """Tells whose signatures notifications have, of those whom certificates in *pem* let one
    believe.

    Raises:
        ValueError: There is no certificate in it.
    """

    def __init__(self, pem: bytes) -> None:
        self._verifier = EventVerifier(read_trusted_signers(pem))

    def of(self, notification: Received) -> Signed:
        """Check the signature of *notification*."""
        signature = notification.properties.get(EVENT_SIGNATURE)
        if signature is None:
            return Signed("NOT signed", {"state": "none"})
        try:
            found = self._verifier.verify(
                signature,
                notification.payload,
                now=datetime.now(UTC),
                media_type=notification.media_type,
            )
            if not topic_agrees(found.topic, notification.topic):
                raise SignatureInvalid(f"it was signed for {found.topic or 'no topic'}")
        except SignatureInvalid as error:
            record: dict[str, str | None] = {"state": "invalid", "why": error.text}
            return Signed(f"signature invalid: {error.text}", record)
        record = {
            "state": "valid",
            "signed_by": found.name,
            "subject": found.subject,
            "identifier": found.identifier,
            "id": found.id,
            "topic": found.topic,
            "time": found.time.isoformat(),
        }
        return Signed(f"signed by {found.name}", record)


def read_check(path: Path) -> SignatureCheck:
    """Read the certificates of whom to believe.

    Raises:
        CommandFailed: They cannot be read.
    """
    try:
        return SignatureCheck(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CommandFailed(f"--signers: {path}: {_why(error)}") from error


def read_sign(key: Path, certificate: Path) -> Sign:
    """Read the key and the certificate of who signs.

    Raises:
        CommandFailed: They cannot be read, or do not belong together.
    """
    try:
        signer = read_signer(key.read_bytes(), certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise CommandFailed(f"--sign-key, --sign-certificate: {_why(error)}") from error
    return lambda payload, id, topic: signer.sign(
        payload, id=id, topic=topic, time=datetime.now(UTC)
    )


def read_own_key(path: Path) -> SigningKey:
    """Read the key, and its certificate, of who signs messages.

    Raises:
        CommandFailed: They cannot be read, or do not belong together.
    """
    try:
        return read_key_and_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CommandFailed(f"--bound-to: {path}: {_why(error)}") from error


def read_trusted(path: Path) -> Trust:
    """Read the certificates of whose messages are believed.

    Raises:
        CommandFailed: They cannot be read.
    """
    try:
        return read_trust(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CommandFailed(f"--trust: {path}: {_why(error)}") from error


def _why(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
