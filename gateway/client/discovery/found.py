"""Topics that were found."""

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
        more: Who answered knows more than fits into the answer, or than it had the time to look at.
    """

    topic_id: UUID
    octets: bytes
    answered_by: str
    more: bool
    _verifier: Verifier = field(repr=False)
    _checked: CheckedAdvertisement | None = field(default=None, repr=False)

    def check(self) -> CheckedAdvertisement:
        """Who made it, which node signed it, and what it is; checked once.

        Raises:
            Refused: It is not what it says.
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


class Findings:
    """What several answers to one query bring, each topic once.

    Attributes:
        more: Somebody who answered knows more than fits into the answer, or than it had the time to
            look at; also where it found none.
    """

    def __init__(self, verifier: Verifier) -> None:
        self.more = False
        self._verifier = verifier
        self._known: dict[UUID, Found] = {}

    def __len__(self) -> int:
        return len(self._known)

    def new(self, response: TopicDiscoveryResponse) -> Iterable[Found]:
        """What *response* brings that is not known. One that is forged keeps no other out."""
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
    """What *topic* is.

    Raises:
        Refused: It is not what it says.
        GatewayError: It is encrypted.
    """
    if isinstance(topic, TopicAdvertisement):
        return topic
    checked = topic.check().advertisement
    if isinstance(checked, EncryptedAdvertisement):
        raise GatewayError("the advertisement is encrypted: its creator hands on its key")
    return checked


def opened(
    advertisement: AnyAdvertisement,
    credentials: Credentials,
    verifier: Verifier,
    keys: Iterable[bytes] = (),
) -> TopicAdvertisement | None:
    """What an *advertisement* that was checked says; None: it is encrypted, and neither for who has
    *credentials* nor with one of *keys*, which creators have handed on."""
    if isinstance(advertisement, TopicAdvertisement):
        return advertisement
    own = credentials.identifier(Role.ENTITY)
    for key in (b"", *keys):  # Our own needs none.
        with suppress(Refused):
            return open_advertisement(advertisement, own, credentials, verifier, now=now(), key=key)
    return None
