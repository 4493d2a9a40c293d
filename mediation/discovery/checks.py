"""Check a message before anybody acts on it.

`receive` is for messages, `check_advertisement` for advertisements wherever they come from, and
`check_created` for the answer to a request for a topic. What a stranger can make us do grows in
this order: size and schema, times, signatures, memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from uuid import UUID

from filters import Refused
from mediation.discovery.credentials import Credentials
from mediation.discovery.encryption import decrypt, is_encrypted
from mediation.discovery.errors import (
    Crowded,
    DecryptionFailed,
    Malformed,
    Mismatch,
    SignatureRefused,
    Untimely,
)
from mediation.discovery.identifiers import Role, path_of, role_of, topic_of
from mediation.discovery.reading import Received, read, read_advertisement, read_as, read_carried
from mediation.discovery.signatures import Signer, Verifier
from mediation.discovery.synopses import check_finished, place_uuid
from mediation.discovery.values import (
    AnyAdvertisement,
    DelegationRevocation,
    Descriptors,
    Element,
    EncryptedAdvertisement,
    Head,
    Message,
    NodeDiscoveryRequest,
    NodeDiscoveryResponse,
    Refusal,
    SignedTopicAdvertisement,
    TopicAdvertisement,
    TopicCreationRequest,
    TopicCreationResponse,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    TopicWithdrawal,
)
from mediation.discovery.writing import canonical_document

MAX_AHEAD = timedelta(seconds=60)
"""The most that the clock of a sender may be ahead of ours."""
MAX_LIFE = timedelta(minutes=10)
"""The longest time from Issued to Expires of a message."""
MAX_SEEN = 100_000
"""The most messages that a replay window remembers."""
_SWEEPS = timedelta(seconds=1)


class ReplayWindow:
    """The messages that were seen, each until it expires: the caller keeps it, and no clock.

    A message is known by its sender and id together: whoever copied an id alone could otherwise
    keep the message of another out. What is not signed goes to a window of its own, so that
    strangers fill nothing but that.
    """

    def __init__(self, *, most: int = MAX_SEEN) -> None:
        self._most = most
        self._seen: dict[tuple[str, str], datetime] = {}
        self._swept: datetime | None = None
        """The time of the last purge: a full window is not searched for each message."""

    def admit(self, sender: str, id: str, *, expires: datetime, now: datetime) -> None:
        """Remember a message.

        Raises:
            Untimely: It was seen before.
            Crowded: There is no room for another until some expire.
        """
        known = self._seen.get((sender, id))
        if known is not None and known >= now:
            raise Untimely("The message came before.", value=id)
        if len(self._seen) >= self._most:
            if self._swept is None or now >= self._swept + _SWEEPS:
                self._seen = {key: until for key, until in self._seen.items() if until >= now}
                self._swept = now
            if len(self._seen) >= self._most:
                raise Crowded("Too many messages came lately.")
        self._seen[sender, id] = expires

    def __len__(self) -> int:
        return len(self._seen)


def check_times(issued: datetime, expires: datetime, *, now: datetime) -> None:
    """Check the times of a message, or of a proof of possession.

    Raises:
        Untimely: It is over, was issued too far ahead, or lives too long.
    """
    if now > expires:
        raise Untimely("The message is over.")
    if issued > now + MAX_AHEAD:
        raise Untimely("The message is issued in the future.")
    if expires > issued + MAX_LIFE:
        raise Untimely("The message lives for more than ten minutes.")


# Messages.


@dataclass(frozen=True, slots=True)
class Checked:
    """A message that is what it says it is.

    Attributes:
        signer: None: it is a request of a stranger.
        encrypted: It was, for us.
        octets: As it came, or was decrypted.
    """

    message: Message
    signer: Signer | None
    encrypted: bool
    octets: bytes


_NOBODY = None
_SENDERS: Mapping[type, frozenset[Role | None]] = {
    NodeDiscoveryRequest: frozenset({Role.ENTITY, _NOBODY}),
    NodeDiscoveryResponse: frozenset({Role.NODE}),
    TopicCreationRequest: frozenset({Role.ENTITY}),
    TopicCreationResponse: frozenset({Role.NODE}),
    TopicWithdrawal: frozenset({Role.ENTITY}),
    TopicDiscoveryRequest: frozenset({Role.ENTITY, _NOBODY}),
    TopicDiscoveryResponse: frozenset({Role.NODE, Role.ENTITY}),
    Refusal: frozenset({Role.NODE}),
}
"""The role of the sender of each message; strangers have no role."""
_ADDRESSED = (
    NodeDiscoveryResponse,
    TopicCreationRequest,
    TopicCreationResponse,
    TopicDiscoveryResponse,
    Refusal,
)
"""Messages for one alone."""


def receive(
    octets: bytes,
    verifier: Verifier,
    own: Mapping[str, Credentials | None],
    *,
    now: datetime,
) -> Checked:
    """Check a message: its schema, times, signature, sender and receiver. Whether it came before, a
    `ReplayWindow` tells (`admit`).

    Args:
        own: Our identifiers, with the credentials of those that have any.

    Raises:
        Refused: What is wrong. Of an encrypted message it is always `DecryptionFailed`.
    """
    if not is_encrypted(octets):
        return _check(octets, verifier, own, now=now)
    for name, credentials in own.items():
        if credentials is None:
            continue
        try:
            plain = decrypt(octets, name, credentials)
            checked = _check(plain, verifier, {name: None}, now=now, encrypted=True)
        except Refused:
            continue
        return checked
    raise DecryptionFailed


def _check(
    octets: bytes,
    verifier: Verifier,
    own: Mapping[str, Credentials | None],
    *,
    now: datetime,
    encrypted: bool = False,
) -> Checked:
    received = read(octets)
    message = received.value
    if not isinstance(message, Message):
        raise Malformed("The document is not a message with a head.")
    head = message.head
    check_times(head.issued, head.expires, now=now)
    # An encrypted message without To could be encrypted anew by its receiver, for another.
    if head.to is None and (encrypted or isinstance(message, _ADDRESSED)):
        raise Mismatch("The message does not say whom it is for.")
    if head.to is not None and head.to not in own:
        raise Mismatch("The message is for another.")
    signer = _sender(received, head, verifier, now=now)
    own_topic = path_of(topic_of(head.sender))
    if isinstance(message, NodeDiscoveryResponse) and message.topic != own_topic:
        raise Mismatch("The node offers a topic that is not its own.", value=message.topic)
    return Checked(message, signer, encrypted, octets)


def _sender(
    received: Received[Element], head: Head, verifier: Verifier, *, now: datetime
) -> Signer | None:
    role = role_of(head.sender)
    if role not in _SENDERS[type(received.value)]:
        raise SignatureRefused("A message of this kind does not come from such a sender.")
    if role is None:
        if received.signature is not None:
            raise SignatureRefused("The sender has no key, and the message a signature.")
        return None
    signer = verifier.verify(received, role, now=now)
    if signer.identifier != head.sender:
        raise SignatureRefused("The signer is not the sender.", value=signer.identifier)
    return signer


def admit(checked: Checked, window: ReplayWindow, *, now: datetime) -> None:
    """Remember a message in *window*: one for what is signed, another for what is not.

    Raises:
        Untimely: It came before.
        Crowded: There is no room.
    """
    head = checked.message.head
    window.admit(head.sender, str(head.message_id), expires=head.expires, now=now)


def check_answer(request: Head, answer: Head) -> None:
    """Check that *answer* is one to *request*.

    Raises:
        Mismatch: It is not.
    """
    if answer.in_reply_to != request.message_id or answer.to != request.sender:
        raise Mismatch("The message answers another request.")
    if request.to is not None and answer.sender != request.to:
        raise Mismatch("Another than the one who was asked answers.")


# Advertisements.


@dataclass(frozen=True, slots=True)
class CheckedAdvertisement:
    """A topic that is its creator's, and unique.

    Attributes:
        octets: The SignedTopicAdvertisement, as it came: what is kept, and handed on.
        signed: The advertisement in canonical form, without the signature of its node.
    """

    issued: datetime
    advertisement: AnyAdvertisement
    creator: Signer
    node: Signer
    octets: bytes
    signed: bytes


def check_advertisement(
    octets: bytes, verifier: Verifier, *, now: datetime
) -> CheckedAdvertisement:
    """Check a SignedTopicAdvertisement, whoever brings it.

    Raises:
        Refused: What is wrong, the first of: size, schema, the creator's signature, the node's,
            the creator's key, the node's key, the times, the UUID in the synopsis.
    """
    outer = read_as(SignedTopicAdvertisement, octets)
    inner = read_carried(outer.value.advertisement)
    creator = verifier.verify(outer, Role.ENTITY, now=now)
    node = verifier.verify(inner, Role.NODE, now=now)
    advertisement = inner.value
    if creator.identifier != advertisement.creator.entity_id:
        raise Mismatch("The advertisement is signed by another than its creator.")
    if node.identifier != advertisement.node:
        raise Mismatch("The topic was signed by another than its node.")
    _check_current(advertisement, now)
    if outer.value.issued > now + MAX_AHEAD:
        raise Untimely("The advertisement is issued in the future.")
    if isinstance(advertisement, TopicAdvertisement):
        # A node that gave away a topic without its UUID would give away what is not its own.
        check_finished(advertisement.synopsis, advertisement.topic_id)
    return CheckedAdvertisement(
        outer.value.issued, advertisement, creator, node, octets, inner.signed
    )


def _check_current(advertisement: AnyAdvertisement, now: datetime) -> None:
    # A node's clock may be ahead, and an advertisement comes milliseconds after its creation.
    if advertisement.created > now + MAX_AHEAD:
        raise Untimely("The topic is created in the future.")
    if now >= advertisement.expires:
        raise Untimely("The topic has expired.")


class Standing(Enum):
    """The relation of an advertisement to the known one of its topic."""

    NEWER = "newer"
    """It takes the other's place."""
    NOT_NEWER = "not newer"
    """It says nothing new."""
    CONFLICT = "conflict"
    """It claims the topic for another creator, or with another synopsis: the known one stays, and
    somebody should look at it."""


def standing(known: CheckedAdvertisement, new: CheckedAdvertisement) -> Standing:
    """Compare two advertisements of one topic."""
    if _claim(known.advertisement) != _claim(new.advertisement):
        return Standing.CONFLICT
    return Standing.NEWER if new.issued > known.issued else Standing.NOT_NEWER


def _claim(advertisement: AnyAdvertisement) -> tuple[UUID, str, object]:
    """Return the creator of a topic and its synopsis, which may be encrypted."""
    claim = (
        advertisement.data
        if isinstance(advertisement, EncryptedAdvertisement)
        else advertisement.synopsis
    )
    return advertisement.topic_id, advertisement.creator.entity_id, claim


def open_advertisement(
    encrypted: EncryptedAdvertisement,
    recipient: str,
    credentials: Credentials,
    verifier: Verifier,
    *,
    now: datetime,
    key: bytes = b"",
) -> TopicAdvertisement:
    """Decrypt an advertisement that was checked.

    Args:
        key: The ``xenc:EncryptedKey`` that its creator made for *recipient*; the creator needs
            none.

    Raises:
        DecryptionFailed: Whatever the cause: it is for another, or holds another advertisement.
    """
    try:
        plain = decrypt(encrypted.data, recipient, credentials, key)
        inner = read_as(TopicAdvertisement, plain)
        node = verifier.verify(inner, Role.NODE, now=now)
    except Refused:
        raise DecryptionFailed from None
    found = inner.value
    if node.identifier != encrypted.node or (
        found.topic_id,
        found.node,
        found.creator.entity_id,
        found.created,
        found.expires,
    ) != (
        encrypted.topic_id,
        encrypted.node,
        encrypted.creator.entity_id,
        encrypted.created,
        encrypted.expires,
    ):
        raise DecryptionFailed
    return found


# Creation, withdrawal.


@dataclass(frozen=True, slots=True)
class Created:
    """A topic as its creator asked for it.

    Attributes:
        signed: What its creator publishes: the advertisement, signed by its node.
        advertisement: What it says, decrypted where it is encrypted.
    """

    signed: bytes
    advertisement: TopicAdvertisement


def check_request(request: Checked) -> TopicCreationRequest:
    """Check that a request for a topic asks for one of the sender's own.

    Raises:
        Malformed: It is another message.
        Mismatch: It names another creator.
    """
    message = request.message
    if not isinstance(message, TopicCreationRequest):
        raise Malformed("The message is not a TopicCreationRequest.")
    if message.creator.entity_id != message.head.sender:
        raise Mismatch("The creator of the topic is not the sender of the request.")
    return message


def check_created(
    request: TopicCreationRequest,
    response: Checked,
    verifier: Verifier,
    credentials: Credentials,
    *,
    now: datetime,
) -> Created:
    """Check that *response* brings the topic that *request* asked for.

    Raises:
        Refused: It does not: another creator or other descriptors, a synopsis that does not come
            of the placeholder, a longer life, a signature that is not its node's.
    """
    message = response.message
    if not isinstance(message, TopicCreationResponse):
        raise Malformed("The message is not a TopicCreationResponse.")
    check_answer(request.head, message.head)
    received = read_carried(message.advertisement)
    node = verifier.verify(received, Role.NODE, now=now)
    outside = received.value
    if not node.identifier == outside.node == message.head.sender:
        raise Mismatch("The topic was signed by another than the node that answers.")
    _check_current(outside, now)
    if isinstance(outside, EncryptedAdvertisement) is not request.encrypted:
        raise Mismatch("The advertisement is encrypted where it should not be, or the reverse.")
    if isinstance(outside, EncryptedAdvertisement):
        sender = request.head.sender
        found = open_advertisement(outside, sender, credentials, verifier, now=now)
    else:
        found = outside
    if found.creator != request.creator:
        raise Mismatch("The creator is not the one of the request.")
    if found.descriptors != _canonical(request.descriptors):
        raise Mismatch("The descriptors are not those of the request.")
    if found.synopsis != place_uuid(request.synopsis, found.topic_id):
        raise Mismatch("The synopsis does not match the placeholder of the creation request.")
    if request.lifetime is not None and found.expires > request.lifetime.after(found.created):
        raise Mismatch("The topic lives longer than the creation request allows.")
    return Created(message.advertisement, found)


def check_kept(
    signed: bytes, verifier: Verifier, credentials: Credentials, *, now: datetime
) -> Created:
    """Check a topic of one's own, of which *signed* was kept (`Created.signed`).

    Raises:
        Refused: It is another's, is over, or its node did not sign it.
    """
    received = read_advertisement(signed)
    node, own = verifier.verify(received, Role.NODE, now=now), credentials.identifier(Role.ENTITY)
    outside = received.value
    if node.identifier != outside.node:
        raise Mismatch("The topic was signed by another than its node.")
    if outside.creator.entity_id != own:
        raise Mismatch(f"The topic is of {outside.creator.entity_id}, and not of {own}.")
    _check_current(outside, now)
    if isinstance(outside, EncryptedAdvertisement):
        return Created(signed, open_advertisement(outside, own, credentials, verifier, now=now))
    return Created(signed, outside)


def _canonical(descriptors: Descriptors) -> Descriptors:
    return replace(descriptors, documents=tuple(map(canonical_document, descriptors.documents)))


@dataclass(frozen=True, slots=True)
class CheckedRevocation:
    """A revocation that its signer made. Whether the topic is the signer's, who keeps the
    advertisement knows."""

    revocation: DelegationRevocation
    signer: Signer


def check_revocation(octets: bytes, verifier: Verifier, *, now: datetime) -> CheckedRevocation:
    """Check a DelegationRevocation, whoever brings it.

    Raises:
        Refused: What is wrong, the first of: size, schema, the times, the signature.
    """
    received = read_as(DelegationRevocation, octets)
    revocation = received.value
    if revocation.issued > now + MAX_AHEAD:
        raise Untimely("The revocation is issued in the future.")
    if now >= revocation.until:
        raise Untimely("The delegation that is revoked is over.")
    return CheckedRevocation(revocation, verifier.verify(received, Role.ENTITY, now=now))


def check_withdrawal(withdrawal: Checked, known: AnyAdvertisement) -> None:
    """Check that whoever withdraws a topic is its creator.

    Raises:
        Malformed: It is another message, or of another topic.
        Mismatch: It is another's.
    """
    message = withdrawal.message
    if not isinstance(message, TopicWithdrawal) or message.topic_id != known.topic_id:
        raise Malformed("The message does not withdraw this topic.")
    if withdrawal.signer is None or withdrawal.signer.identifier != known.creator.entity_id:
        raise Mismatch("The withdrawal is not signed by the creator of the topic.")
