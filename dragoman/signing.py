"""Sign events as their publisher, and tell who signed those that come.

::

    mole = Signer.from_files("mole.key", "mole.pem")
    async with WsnClient(url, signers=TrustedSigners.from_file("harbour.pem")) as client:
        await client.publish("<gale>8</gale>", topic="storms", sign=mole)
        async for event in client.listen(topic="storms"):
            print(event.signed_by)  # North mole; None: nobody that is trusted

A signature is of the event, not of a message: brokers, gateways and other specifications carry it
on, and change nothing that it says. It needs the extra ``signing``.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from mediation.event_signatures import (
    EventSignature,
    EventSigner,
    EventVerifier,
    SignatureInvalid,
    read_signer,
    read_trusted_signers,
    topic_agrees,
)
from mediation.names import EVENT_SIGNATURE
from mediation.packaging.data import wrap
from mediation.soap.body_elements import body_element

if TYPE_CHECKING:
    from dragoman.events import Event
    from filters import Topic

__all__ = ["EventSignature", "SignatureInvalid", "Signer", "TrustedSigners"]


class Signer:
    """Signs events with a key, as the holder of its certificate."""

    def __init__(self, signer: EventSigner) -> None:
        self._signer = signer

    @classmethod
    def from_files(
        cls,
        key: str | Path,
        certificate: str | Path,
        *,
        password: bytes | None = None,
        embed: bool = True,
    ) -> Self:
        """Read the signer's key and certificate, in PEM: RSA of 2048 bits or more, or a curve
        (P-256, P-384, P-521), which makes shorter signatures.

        Args:
            certificate: The signer's, then intermediates up to its authority.
            password: Of the key.
            embed: Signatures have the certificates. Without, they are a quarter as long, and who
                checks them has the signer's certificate.

        Raises:
            OSError: A file cannot be read.
            ValueError: They are none, or the key does not serve.
        """
        read = read_signer(
            Path(key).read_bytes(), Path(certificate).read_bytes(), password, embed=embed
        )
        return cls(read)

    def __call__(self, payload: bytes, id: str, topic: "Topic | None") -> str:
        """The signature of an event that is signed now; clients call it."""
        return self._signer.sign(payload, id=id, topic=topic, time=datetime.now(UTC))

    def sign(
        self,
        content: bytes | str,
        *,
        topic: str | None,
        id: str,
        media_type: str | None = None,
        time: datetime | None = None,
        attachments: Sequence[bytes] = (),
    ) -> str:
        """Return the signature of an event.

        Args:
            content: One XML element, or data of *media_type*.
            topic: A name, a path, or Clark notation; None: it has none.
            id: The event's own.
            media_type: None: it is XML.
            time: When it is signed, aware; now, when None.
            attachments: Their contents, in their order.

        Raises:
            ValueError: The content is not one XML element, or the topic none.
        """
        return self._signer.sign(
            _payload(content, media_type),
            id=id,
            topic=_topic(topic),
            time=time or datetime.now(UTC),
            attachments=attachments,
        )

    def broker_properties(
        self,
        content: bytes | str,
        *,
        topic: str,
        id: str | None = None,
        media_type: str | None = None,
    ) -> dict[str, str]:
        """Return the properties of a signed message that a program publishes at the broker itself:
        headers of AMQP for pika, headers for stomp.py, properties for JMS. Its body is *content*.

        Args:
            id: The event's own; a new one, when None.

        Raises:
            ValueError: As in `sign`.
        """
        id = id or f"urn:uuid:{uuid4()}"
        return {
            "cloudEvents_id": id,
            "ws_topic": str(_topic(topic)),
            EVENT_SIGNATURE: self.sign(content, topic=topic, id=id, media_type=media_type),
        }


class TrustedSigners:
    """Whose signatures are believed."""

    def __init__(self, pem: bytes) -> None:
        """Read certificates in PEM: of authorities, whose holders are believed, and of signers.

        Raises:
            ValueError: There is none.
        """
        self._verifier = EventVerifier(read_trusted_signers(pem))

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a file of certificates.

        Raises:
            OSError: It cannot be read.
            ValueError: There is none in it.
        """
        return cls(Path(path).read_bytes())

    def verify(self, event: "Event", *, now: datetime | None = None) -> EventSignature | None:
        """Return who signed *event*, and its id, topic and time as they were signed; None: nobody
        did. An id that came before is one that somebody repeats.

        Args:
            now: When the certificates have to be valid; now, when None.

        Raises:
            SignatureInvalid: The signature is not one of the event, or of nobody trusted.
        """
        return self.verify_content(
            event.signature,
            event.payload,
            _topic(event.topic),
            now=now or datetime.now(UTC),
            media_type=event.media_type,
        )

    def verify_content(
        self,
        signature: str | None,
        payload: bytes,
        topic: "Topic | None",
        *,
        now: datetime,
        media_type: str | None = None,
    ) -> EventSignature | None:
        """As `verify`, of the parts of an event."""
        if signature is None:
            return None
        found = self._verifier.verify(signature, payload, now=now, media_type=media_type)
        if not topic_agrees(found.topic, topic):
            raise SignatureInvalid(f"it was signed for {found.topic or 'no topic'}, not for this")
        return found


def _payload(content: bytes | str, media_type: str | None) -> bytes:
    if media_type is None:
        return body_element(content)
    return wrap(content.encode() if isinstance(content, str) else content, media_type)


def _topic(text: str | None) -> "Topic | None":
    from filters import parse_clark

    return None if text is None else parse_clark(text)
