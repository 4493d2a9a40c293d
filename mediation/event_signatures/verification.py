"""Check the signatures of events: whose they are, and that the event is what was signed."""

import json
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from filters import DEFAULT_TOPIC, Reason, Refused, Topic, parse_clark
from mediation.certificate_chains import ValidChains
from mediation.certificates import UNREADABLE_CERTIFICATE, read_certificate, read_certificates
from mediation.discovery.errors import SignatureRefused
from mediation.discovery.identifiers import Role, identifier_of
from mediation.discovery.signatures import (
    Anchors,
    chain_to_anchor,
    chains_to,
    check_refused,
    read_anchors,
)
from mediation.event_signatures.algorithms import MAX_HEADER, registry
from mediation.event_signatures.content import (
    MOST_PREFIXES,
    TYPE,
    XML,
    canonical_content,
    content_of,
    digest_of,
)
from mediation.model.errors import MediationError

MAX_SIGNATURE = MAX_HEADER * 4 // 3 + 1024
"""Characters of a signature."""
MOST_CERTIFICATES = 5
MAX_ID = 1024
"""Octets of the id of an event. PostgreSQL has no index of more than 2704, and it is looked for."""
_UNTYPED = frozenset({"", "application/octet-stream", "text/plain"})
"""What data are said to be at a messaging system by whom says no type."""
_OF_XML = frozenset({XML, "application/xml", "text/xml"})


class SignatureInvalid(MediationError):
    """The signature of an event is none that counts; the text says why."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.NOT_ALLOWED, text)


@dataclass(frozen=True, slots=True)
class EventSignature:
    """A signature that was checked.

    Attributes:
        name: The signer's: the common name of its certificate, else its whole subject.
        subject: That of its certificate (RFC 4514).
        identifier: That of its key, ``e-`` and 32 digits, which outlives the certificate.
        id, topic, time: Of the event, as it was signed; *topic* in Clark notation, None: none.
    """

    name: str
    subject: str
    identifier: str
    id: str
    topic: str | None
    time: datetime


@dataclass(frozen=True)
class TrustedSigners:
    """Who is believed: holders of certificates, and whom authorities certified.

    Attributes:
        holders: Single certificates, by the identifiers of their keys; signatures may name these.
        refused: Identifiers of signers, and of authorities, that do not count all the same.
    """

    anchors: Anchors
    holders: Mapping[str, x509.Certificate]
    refused: frozenset[str] = frozenset()


def read_trusted_signers(pem: bytes) -> TrustedSigners:
    """Read certificates in PEM: of authorities, and of single signers; and lists of those that
    these authorities have revoked.

    Raises:
        ValueError: There is none, or one that cannot be read; a list cannot be used.
    """
    anchors = read_anchors(pem)
    every = read_certificates(pem)
    alone = [one for one in every if one not in anchors.authorities]
    return TrustedSigners(anchors, {identifier_of(one, Role.ENTITY): one for one in alone})


class EventVerifier:
    """Tells who signed events, of those in *trusted*.

    It remembers chains of certificates that led to an anchor (`ValidChains`).
    """

    def __init__(self, trusted: TrustedSigners) -> None:
        self._trusted = trusted
        self._chains = chains_to(trusted.anchors)
        self._known: ValidChains[tuple[str, ...], _Signer] = ValidChains(
            next_due=trusted.anchors.revocations.next_due
        )

    def verify(
        self,
        signature: str,
        payload: bytes,
        *,
        now: datetime,
        attachments: Sequence[bytes] | None = None,
        wrapped: bool = False,
        media_type: str | None = None,
    ) -> EventSignature:
        """Check that *payload*, as a consumer has it, is what *signature* signs. Of id, topic and
        time the signature itself says what they are: see `topic_agrees`.

        Args:
            now: The time at which certificates have to be valid.
            attachments: Their contents; None: the reader has none, whatever there were.
            wrapped: Data that are not XML are in the element that holds them, as a gateway has
                them. Else *payload* may be data of *media_type*.
            media_type: What they are said to be by whom the signature does not cover; None: nobody
                says it.

        Raises:
            SignatureInvalid: It is not.
        """
        header = _header_of(signature)
        signer = self._trusted_signer(header, now)
        content = _signed_content(header, payload, wrapped=wrapped, media_type=media_type)
        if attachments is not None and header.attachments != tuple(map(digest_of, attachments)):
            raise SignatureInvalid("the attachments are not those that were signed")
        try:
            jws.deserialize_compact(signature, signer.key, registry=registry(), payload=content)
        except (JoseError, ValueError, TypeError):
            raise SignatureInvalid("the event is not what was signed") from None
        return _said(header, signer)

    def read(self, signature: str, *, now: datetime) -> EventSignature:
        """Return what *signature* says. It was checked before: that it signs the event is not.

        Raises:
            SignatureInvalid: It cannot be read, or its signer is not trusted.
        """
        header = _header_of(signature)
        return _said(header, self._trusted_signer(header, now))

    def _trusted_signer(self, header: "_Header", now: datetime) -> "_Signer":
        """As `_signer`.

        Raises:
            SignatureInvalid: It is not trusted, or cannot be read.
        """
        try:
            return self._signer(header, now)
        except (SignatureRefused, *UNREADABLE_CERTIFICATE) as error:
            text = error.text if isinstance(error, Refused) else str(error)
            raise SignatureInvalid(f"the signer is not trusted: {text[:200].rstrip('.')}") from None

    def _signer(self, header: "_Header", now: datetime) -> "_Signer":
        """The signer that *header* names.

        Raises:
            SignatureRefused, and `UNREADABLE_CERTIFICATE`: It is not trusted, or cannot be read.
        """
        name = header.certificates or (header.key,)
        return self._known.learn(name, now, partial(self._learn, header, now))

    def _learn(
        self, header: "_Header", now: datetime
    ) -> tuple["_Signer", Sequence[x509.Certificate]]:
        """The signer, and the chain of its certificate."""
        if header.certificates:
            leaf, *others = map(_certificate, header.certificates)
        else:
            found = self._trusted.holders.get(header.key)
            if found is None:
                raise SignatureRefused("its key is not known here")
            leaf, others = found, []
        chain = chain_to_anchor(leaf, others, self._trusted.anchors, self._chains, now=now)
        check_refused(chain, self._trusted.refused)
        signer = _signer_of(leaf)
        if signer.identifier in self._trusted.refused:
            raise SignatureRefused("it is refused here")
        return signer, chain


def topic_agrees(signed: str | None, received: Topic | None) -> bool:
    """Return True if an event that was received on a topic may be what was signed for *signed*.
    Dialects leave parts of topics away (`mediation.matrix`): its namespaces, levels, or all of it.
    """
    if received is None or received == DEFAULT_TOPIC:
        return True
    if signed is None:
        return False
    if str(received) == signed:
        return True
    try:
        levels = [step.name for step in parse_clark(signed).steps]
    except ValueError:
        return False
    said = [step.name for step in received.steps]
    if any(step.namespace for step in received.steps):
        return False
    return said in (levels, ["/".join(levels)], levels[:1], levels[-1:])


@dataclass(frozen=True, slots=True)
class _Header:
    """The header of a signature, read; nothing of it has been checked."""

    id: str
    topic: str | None
    time: datetime
    kind: str | None
    prefixes: tuple[str, ...]
    certificates: tuple[str, ...]
    key: str
    attachments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Signer:
    """A signer whose certificates led to an anchor."""

    key: ECKey | RSAKey
    name: str
    subject: str
    identifier: str


def _said(header: _Header, signer: _Signer) -> EventSignature:
    return EventSignature(
        signer.name, signer.subject, signer.identifier, header.id, header.topic, header.time
    )


def _header_of(signature: str) -> _Header:
    """Read the header of a signature.

    Raises:
        SignatureInvalid: It has none.
    """
    head, content, _ = _parts(signature)
    if content:
        raise SignatureInvalid("the signature holds its content, which must be detached")
    try:
        said = json.loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
        if not isinstance(said, dict) or said.get("typ") != TYPE:
            raise ValueError
        time = datetime.fromisoformat(_text(said["time"]))
        if time.tzinfo is None:
            raise ValueError
        topic, kind = said.get("topic"), said.get("cty")
        return _Header(
            _id(said["id"]),
            None if topic is None else _text(topic),
            time,
            None if kind is None else _text(kind),
            _texts(said, "ns", MOST_PREFIXES),
            _texts(said, "x5c", MOST_CERTIFICATES),
            _text(said.get("kid", "")),
            _texts(said, "attachments", 1000),
        )
    except (ValueError, LookupError, RecursionError):
        raise SignatureInvalid("the signature cannot be read") from None


def _parts(signature: str) -> tuple[str, str, str]:
    parts = signature.split(".") if len(signature) <= MAX_SIGNATURE else []
    if len(parts) != 3 or not signature.isascii():
        raise SignatureInvalid("the signature cannot be read")
    return parts[0], parts[1], parts[2]


def _id(value: Any) -> str:
    text = _text(value)
    if len(text.encode()) > MAX_ID:
        raise ValueError(f"an id is longer than {MAX_ID} octets")
    return text


def _text(value: Any) -> str:
    """A text that databases and logs take: JSON writes U+0000 and half characters, too."""
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("it is not text")
    value.encode()  # Raises UnicodeEncodeError, a ValueError, for half a character.
    return value


def _texts(said: Mapping[str, Any], name: str, most: int) -> tuple[str, ...]:
    values = said.get(name, [])
    if not isinstance(values, list) or len(values) > most:
        raise ValueError(f"{name} is not a list of at most {most}")
    return tuple(map(_text, values))


def _signed_content(
    header: _Header, payload: bytes, *, wrapped: bool, media_type: str | None = None
) -> bytes:
    """The bytes of *payload* that are to be what was signed.

    Raises:
        SignatureInvalid: It is XML, and data were signed, or the other way round; or it is said to
            be data of another type.
    """
    content = content_of(payload)
    if wrapped or not content.is_xml or media_type is not None:
        signed = _type_of(header.kind)
        said = XML if content.is_xml else _type_of(content.media_type)
        if media_type is not None:
            said = _type_of(media_type)
        if said != signed and (XML in (said, signed) or not _UNTYPED & {said, signed}):
            raise SignatureInvalid(
                f"{signed or 'other data'} was signed, and the event is {said or 'something else'}"
            )
    if header.kind != XML:
        return content.octets
    try:
        return canonical_content(content.octets, header.prefixes)
    except Refused:
        text = "XML was signed, and the event is something else, such as a projection of it"
        raise SignatureInvalid(text) from None


def _type_of(media_type: str | None) -> str:
    """A media type without its parameters; ``xml`` for all that are XML, empty where it is none."""
    said = (media_type or "").partition(";")[0].strip().lower()
    return XML if said in _OF_XML or said.endswith("+xml") else said


def _certificate(text: str) -> x509.Certificate:
    return read_certificate(b64decode(text, validate=True))


def _signer_of(leaf: x509.Certificate) -> _Signer:
    """The signer who holds *leaf*, whose key was checked."""
    key = leaf.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey), "the chain was checked"
    subject = leaf.subject.rfc4514_string()
    names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return _Signer(
        ECKey(key, key) if isinstance(key, ec.EllipticCurvePublicKey) else RSAKey(key, key),
        str(names[0].value) if names else subject,
        subject,
        identifier_of(leaf, Role.ENTITY),
    )
