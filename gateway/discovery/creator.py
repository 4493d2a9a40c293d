"""A creator's own topics: advertised again and again, and found where no node answers.

Nothing here waits or sends: it is given what came and the time, and returns what to publish.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from filters import Refused
from filters.queries import Catalogue, SecondsLeft, compile_query
from gateway.discovery.describing import describe
from gateway.discovery.node import LIFE, conditions_of, fitting
from gateway.discovery.outcomes import Answer, Dropped
from mediation.discovery import (
    DEFAULT_RESULTS,
    Checked,
    Created,
    Credentials,
    Head,
    ReplayWindow,
    Role,
    Scope,
    Signable,
    SignedTopicAdvertisement,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    TopicWithdrawal,
    Verifier,
    admit,
    can_receive,
    encrypt,
    read_advertisement,
    receive,
)

SHARE = 6
"""A topic is advertised again after so much of its lifetime: a sixth."""
DAILY = timedelta(days=1)
"""And after this, however long it lives."""
DELAY = timedelta(milliseconds=500)
"""An answer waits for up to so long, by chance: all creators hear the same query at once."""
LONGEST = timedelta(seconds=30)
"""Queries to creators that live longer are dropped."""


@dataclass(slots=True)
class _Own:
    created: Created
    advertisement: bytes
    next: datetime


class OwnTopics:
    """The topics of one entity.

    Args:
        sign: Signs (`mediation.discovery.signing.sign`).
        new_uuid: Makes a UUID that was never used before.
        chance: A number from 0 to 1, another one each time.
    """

    def __init__(
        self,
        credentials: Credentials,
        verifier: Verifier,
        *,
        sign: Callable[[Signable, Credentials], bytes],
        new_uuid: Callable[[], UUID],
        chance: Callable[[], float],
    ) -> None:
        self.id = credentials.identifier(Role.ENTITY)
        self._credentials = credentials
        self._verifier = verifier
        self._sign = sign
        self._new_uuid = new_uuid
        self._chance = chance
        self._own: dict[UUID, _Own] = {}
        self._catalogue: Catalogue[UUID] = Catalogue()
        self._seen = ReplayWindow()

    def advertise(self, created: Created, *, now: datetime) -> bytes:
        """The advertisement of a topic, to be published now; `due` has it when it is to be
        published again."""
        topic = created.advertisement
        octets = self._advertisement(created, now)
        self._own[topic.topic_id] = _Own(created, octets, now + self._interval(created))
        # What is published, not what it hides: else who asks could find out its content by queries.
        self._catalogue.add(topic.topic_id, describe(read_advertisement(created.signed).value))
        return octets

    def due(self, *, now: datetime) -> list[bytes]:
        """The advertisements that are to be published again; topics that have expired are
        forgotten."""
        for topic_id, own in list(self._own.items()):
            if own.created.advertisement.expires <= now:
                self._forget(topic_id)
        late = [own for own in self._own.values() if own.next <= now]
        for own in late:
            own.advertisement = self._advertisement(own.created, now)
            own.next = now + self._interval(own.created)
        return [own.advertisement for own in late]

    def next(self) -> datetime | None:
        """When `due` has something to publish; None: never."""
        return min((own.next for own in self._own.values()), default=None)

    def withdraw(self, topic_id: UUID, *, now: datetime) -> bytes:
        """The message that takes a topic back, which is advertised no more."""
        self._forget(topic_id)
        head = Head(self._new_uuid(), self.id, now, now + LIFE)
        return self._sign(TopicWithdrawal(head, topic_id), self._credentials)

    def answer(
        self, octets: bytes, *, seconds_left: SecondsLeft, now: datetime
    ) -> tuple[timedelta, Answer]:
        """Answer a query to creators: what to publish, and after which time.

        Raises:
            Dropped: By silence, as all others than a match are answered.
        """
        try:
            checked = receive(octets, self._verifier, {}, now=now)
            return self._answer(checked, seconds_left, now)
        except Refused as refused:
            raise Dropped(refused.reason.value, refused.text) from refused

    def _answer(
        self, checked: Checked, seconds_left: SecondsLeft, now: datetime
    ) -> tuple[timedelta, Answer]:
        request, signer = checked.message, checked.signer
        if not isinstance(request, TopicDiscoveryRequest) or request.scope is not Scope.ENTITIES:
            raise Dropped("for-nodes")
        if signer is None:
            raise Dropped("unauthenticated")
        if request.head.expires - request.head.issued > LONGEST:
            raise Dropped("lives-too-long")
        admit(checked, self._seen, now=now)
        query = compile_query(request.query.dialect, request.query.text)
        found = self._catalogue.find(
            query,
            limit=request.max_results or DEFAULT_RESULTS,
            conditions=conditions_of(request, now),
            seconds_left=seconds_left,
        )
        if not found.keys:
            raise Dropped("nothing-found")
        taken = fitting([self._own[key].advertisement for key in found.keys])
        response = TopicDiscoveryResponse(
            Head(
                self._new_uuid(), self.id, now, now + LIFE, request.head.sender,
                request.head.message_id,
            ),
            taken,
            found.more or not found.complete or len(taken) < len(found.keys),
        )  # fmt: skip
        answer = self._sign(response, self._credentials)
        if can_receive(signer.certificate):
            answer = encrypt(answer, request.head.sender, signer.certificate)
        return DELAY * self._chance(), Answer(request.head.sender, answer, "found")

    def _advertisement(self, created: Created, now: datetime) -> bytes:
        topic_id = created.advertisement.topic_id
        signed = SignedTopicAdvertisement(now, topic_id, created.signed)
        return self._sign(signed, self._credentials)

    @staticmethod
    def _interval(created: Created) -> timedelta:
        topic = created.advertisement
        return min((topic.expires - topic.created) / SHARE, DAILY)

    def _forget(self, topic_id: UUID) -> None:
        if self._own.pop(topic_id, None) is not None:
            self._catalogue.remove(topic_id)
