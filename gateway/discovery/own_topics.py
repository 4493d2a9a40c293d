"""Re-advertise a creator's own topics, and answer queries about them when no node does.

Nothing here waits or sends: it is given messages and the time, and returns what to publish.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from filters import Refused
from filters.queries import Catalogue, SecondsLeft, compile_query
from gateway.discovery.node import LIFE, conditions_of, fitting
from gateway.discovery.node_messages import Answer, MessageDropped
from gateway.discovery.topic_descriptions import describe
from mediation.discovery import (
    DEFAULT_RESULTS,
    Checked,
    Created,
    Credentials,
    DelegationRevocation,
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
    read_as,
    receive,
)

SHARE = 6
"""A topic is advertised again after a sixth of its lifetime."""
DAILY = timedelta(days=1)
"""And after a day, however long it lives."""
DELAY = timedelta(milliseconds=500)
"""The longest random delay of an answer: all creators get the same query at once."""
REVOCATIONS = 1_000
"""Revocations of a topic that are published again: nodes keep no more."""
LONGEST = timedelta(seconds=30)
"""Queries to creators that are valid for longer are dropped."""


@dataclass(slots=True)
class _Own:
    created: Created
    advertisement: bytes
    next: datetime
    revocations: dict[str, bytes] = field(default_factory=dict)
    """Those that are published again with it, by the delegations that they take back."""


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
        """Return the advertisement of a topic, to be published now; `due` returns it when it is to
        be published again."""
        topic = created.advertisement
        octets = self._advertisement(created, now)
        known = self._own.get(topic.topic_id)
        revocations = {} if known is None else known.revocations
        next_ = now + self._interval(created)
        self._own[topic.topic_id] = _Own(created, octets, next_, revocations)
        # What is published, not what it hides: else who asks could find out its content by queries.
        self._catalogue.add(topic.topic_id, describe(read_advertisement(created.signed).value))
        return octets

    def due(self, *, now: datetime) -> list[bytes]:
        """Return the advertisements to publish again, and behind each the revocations for its
        topic; forget topics that have expired."""
        for topic_id, own in list(self._own.items()):
            if own.created.advertisement.expires <= now:
                self._forget(topic_id)
        late = [own for own in self._own.values() if own.next <= now]
        for own in late:
            own.advertisement = self._advertisement(own.created, now)
            own.next = now + self._interval(own.created)
        return [octets for own in late for octets in (own.advertisement, *own.revocations.values())]

    def next(self) -> datetime | None:
        """Return when `due` has something to publish; None: never."""
        return min((own.next for own in self._own.values()), default=None)

    def withdraw(self, topic_id: UUID, *, now: datetime) -> bytes:
        """Return the message that withdraws a topic, which is not advertised any more."""
        self._forget(topic_id)
        head = Head(self._new_uuid(), self.id, now, now + LIFE)
        return self._sign(TopicWithdrawal(head, topic_id), self._credentials)

    def revoke(self, topic_id: UUID, delegation: str, *, until: datetime, now: datetime) -> bytes:
        """Return the message that takes back a delegation, to be published now.

        Args:
            delegation: Its id.
            until: When it ends.
        """
        revocation = DelegationRevocation(
            f"rev-{self._new_uuid()}", topic_id, delegation, now, until
        )
        return self._sign(revocation, self._credentials)

    def repeat_revocation(self, octets: bytes) -> bool:
        """Publish a revocation again whenever its topic is advertised again. Returns False if the
        topic is not advertised, or has too many.

        Raises:
            Refused: It is no revocation.
        """
        said = read_as(DelegationRevocation, octets).value
        own = self._own.get(said.topic_id)
        if own is None or len(own.revocations) >= REVOCATIONS:
            return False
        own.revocations[said.delegation] = octets
        return True

    def answer(
        self, octets: bytes, *, seconds_left: SecondsLeft, now: datetime
    ) -> tuple[timedelta, Answer]:
        """Answer a query to creators. Returns after which time to publish what.

        Raises:
            MessageDropped: Nothing matches; creators answer that with silence.
        """
        try:
            checked = receive(octets, self._verifier, {}, now=now)
            return self._answer(checked, seconds_left, now)
        except Refused as refused:
            raise MessageDropped(refused.reason.value, refused.text) from refused

    def _answer(
        self, checked: Checked, seconds_left: SecondsLeft, now: datetime
    ) -> tuple[timedelta, Answer]:
        request, signer = checked.message, checked.signer
        if not isinstance(request, TopicDiscoveryRequest) or request.scope is not Scope.ENTITIES:
            raise MessageDropped("for-nodes")
        if signer is None:
            raise MessageDropped("unauthenticated")
        if request.head.expires - request.head.issued > LONGEST:
            raise MessageDropped("lives-too-long")
        admit(checked, self._seen, now=now)
        query = compile_query(request.query.dialect, request.query.text)
        found = self._catalogue.find(
            query,
            limit=request.max_results or DEFAULT_RESULTS,
            conditions=conditions_of(request, now),
            seconds_left=seconds_left,
        )
        if not found.keys:
            raise MessageDropped("nothing-found")
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
