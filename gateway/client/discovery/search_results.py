"""Topics that were found by a search, checked and decrypted."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from filters import Refused
from gateway.client.discovery.exchange import now
from gateway.client.errors import GatewayError
from mediation.discovery import (
    AnyAdvertisement,
    CheckedAdvertisement,
    Credentials,
    EncryptedAdvertisement,
    Role,
    TopicAdvertisement,
    TopicDiscoveryResponse,
    Verifier,
    check_advertisement,
    open_advertisement,
    role_of,
    topic_id_of,
)


@dataclass(slots=True)
class Found:
    """A topic that was found. Nothing of it is believed before `check`.

    Attributes:
        octets: The SignedTopicAdvertisement.
        answered_by: The node that knows it, or its creator.
        more: The one that answered knows more topics than its answer holds, or did not look at all.
    """

    topic_id: UUID
    octets: bytes
    answered_by: str
    more: bool
    _verifier: Verifier = field(repr=False)
    _checked: CheckedAdvertisement | None = field(default=None, repr=False)

    def check(self) -> CheckedAdvertisement:
        """Check signatures, creator and times, once. Returns what the advertisement says.

        Raises:
            Refused: It is not genuine, or has expired.
        """
        if self._checked is None:
            self._checked = check_advertisement(self.octets, self._verifier, now=now())
        return self._checked

    @property
    def is_genuine(self) -> bool:
        try:
            self.check()
        except Refused:
            return False
        return True


class SearchResults:
    """The topics in several answers to one query, each once.

    Attributes:
        more: One that answered knows more topics than its answer holds, or did not look at all of
            them; also where it found none.
    """

    def __init__(self, verifier: Verifier) -> None:
        self.more = False
        self._verifier = verifier
        self._known: dict[UUID, Found] = {}

    def __len__(self) -> int:
        return len(self._known)

    def new(self, response: TopicDiscoveryResponse) -> Iterable[Found]:
        """Yield the topics of *response* that are new. A forged one keeps no genuine one out."""
        sender = response.head.sender
        self.more |= response.more
        for octets in response.advertisements:
            try:
                topic_id = topic_id_of(octets)
            except Refused:
                continue
            found = Found(topic_id, octets, sender, response.more, self._verifier)
            if role_of(sender) is Role.ENTITY and not (
                # Creators answer for their own topics alone.
                found.is_genuine and found.check().creator.identifier == sender
            ):
                continue
            before = self._known.get(topic_id)
            if before is None or (before.octets != octets and not before.is_genuine):
                self._known[topic_id] = found
                yield found


def advertisement_of(topic: TopicAdvertisement | Found) -> TopicAdvertisement:
    """Return the advertisement of *topic*.

    Raises:
        Refused: It is not genuine, or has expired.
        GatewayError: It is encrypted.
    """
    if isinstance(topic, TopicAdvertisement):
        return topic
    checked = topic.check().advertisement
    if isinstance(checked, EncryptedAdvertisement):
        raise GatewayError(
            "the advertisement is encrypted: ask its creator for the key, and use `Entity.open`"
        )
    return checked


def decrypted_advertisement(
    advertisement: AnyAdvertisement,
    credentials: Credentials,
    verifier: Verifier,
    keys: Iterable[bytes] = (),
) -> TopicAdvertisement | None:
    """Return an *advertisement* that was checked, decrypted if need be; None if neither
    *credentials* nor one of *keys*, which creators have handed on, decrypts it."""
    if isinstance(advertisement, TopicAdvertisement):
        return advertisement
    own = credentials.identifier(Role.ENTITY)
    for key in (b"", *keys):  # One's own needs no key.
        with suppress(Refused):
            return open_advertisement(advertisement, own, credentials, verifier, now=now(), key=key)
    return None
