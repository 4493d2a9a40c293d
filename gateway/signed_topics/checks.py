"""Checks the signatures of publications on topics that take them.

Each event counts once, by its signer and the id that was signed, in all gateways of a store. One
that came over a gateway is remembered before it is published; its sender may try again, with the
same message id, until it is delivered, and for `signed_events.AGAIN` in any case. What the
messaging system yields is remembered here as long as it is under way, and in the store when it is
settled, and not sooner: what it yields once more before, after a crash, is still delivered. Both
are remembered for at least as long as the signature counts, and `WAITING` longer, for events that
wait at the messaging system.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import Connection

from adapters import Delivery, ObservedDelivery
from filters import Reason, Refused, Topic
from gateway.model.dead_letter_reasons import NOBODY, Death, DeathReason
from gateway.observing.samples import Sample, counters
from gateway.parsing import SMALL, Busy, Parsing
from gateway.security.passwords import Failures
from gateway.security.quotas import QuotaExceeded
from gateway.signed_topics.requirements import Requirement, SignedTopics
from gateway.signed_topics.signer_quotas import SignerQuotas
from gateway.store import Store, StoreUnavailable, dead_lettering, signed_events
from gateway.store.signed_events import ACCEPTED, DELIVERED, WAITING, Row
from mediation.event_signatures import EventSignature, SignatureInvalid
from mediation.model.messages import Notification
from mediation.names import EVENT_SIGNATURE
from mediation.tenants import tenant_of_topic, topic_without_tenant

AHEAD = timedelta(seconds=60)
"""How far the clock of a signer may be ahead of ours."""
FAILURES, FAILURES_AT_ONCE = 1.0, 100.0
"""Signatures that do not count, a second and at once, of who publishes: then none is verified."""
EVERY = 1.0
"""Seconds between two writes to the store of what was delivered."""
RETRY = 1.0
"""Seconds until a store that was unavailable is asked again."""
_NATIVE = "native"
"""The owner of what the messaging system yields, among those whose signatures are verified."""
T = TypeVar("T")
_log = structlog.get_logger("dragoman.signed-topics")


class Outcome(Enum):
    """What a signature was found to be."""

    SIGNED = "signed"
    UNSIGNED = "unsigned"
    INVALID = "invalid"
    UNTIMELY = "untimely"
    REPLAYED = "replayed"
    CROWDED = "crowded"
    """Too many events of its signer are remembered."""


class NotSigned(Refused):
    """An event on a topic that takes signed ones is not signed so that it counts."""

    def __init__(self, outcome: Outcome, topic: Topic, why: str) -> None:
        text = f"Events on the topic {topic} must be signed: {why.rstrip('.')}."
        super().__init__(Reason.NOT_ALLOWED, text, value=str(topic))
        self.outcome = outcome


class SignatureChecks:
    """Checks publications on *topics*."""

    def __init__(
        self,
        topics: SignedTopics,
        store: Store,
        parsing: Parsing,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._topics = topics
        self._store = store
        self._parsing = parsing
        self._now = now
        self._noted: dict[tuple[str, str], Row] = {}
        """Events that were delivered, which the store does not know yet."""
        self._under_way: WeakValueDictionary[tuple[str, str], Delivery] = WeakValueDictionary()
        """Deliveries that are not settled; those that somebody let go of are no more."""
        self._outcomes = dict.fromkeys(Outcome, 0)
        self._quotas = SignerQuotas(store)
        self._failures = Failures(FAILURES, FAILURES_AT_ONCE)

    async def admit(
        self, notifications: Sequence[Notification], tenant: str, owner: str = ""
    ) -> None:
        """Check what came over this gateway from *owner* in *tenant*.

        Raises:
            NotSigned: One is not signed so that it counts: ``NOT_ALLOWED``.
            QuotaExceeded: Too many events of a signer are remembered (``QUOTA``), or too many of
                *owner* were not signed so that they count (``RATE``).
            StoreUnavailable: It cannot be remembered now.
        """
        for notification in notifications:
            requirement = self._topics.of(notification.topic, tenant)
            if requirement is None or notification.topic is None:
                continue
            try:
                found = await self._signature(
                    notification,
                    notification.topic,
                    requirement,
                    owner,
                    check=partial(self._failures.check, owner),
                )
                self._check_time(found, notification.topic, requirement)
                await self._accept(found, notification, notification.topic, requirement)
            except NotSigned as refused:
                self._outcomes[refused.outcome] += 1
                if refused.outcome is Outcome.INVALID:  # Something was computed.
                    self._failures.count(owner)
                raise
            except QuotaExceeded as exceeded:
                self._outcomes[Outcome.CROWDED] += exceeded.reason is Reason.QUOTA
                raise
            self._outcomes[Outcome.SIGNED] += 1

    async def _accept(
        self,
        signature: EventSignature,
        notification: Notification,
        topic: Topic,
        requirement: Requirement,
    ) -> None:
        now = self._now()
        await self._quotas.take(signature, now.timestamp())
        row = _row(signature, notification, ACCEPTED, requirement, now)
        if not await self._store.submit(partial(signed_events.accept, row=row)):
            raise NotSigned(Outcome.REPLAYED, topic, "an event with its signed id came before")

    async def once(self, delivery: Delivery) -> Delivery | None:
        """Check what the messaging system yields, which a program may have published there. Returns
        None where it is set aside, in the dead letters: its signature does not count, or came
        before."""
        notification = delivery.notification
        topic = notification.topic and topic_without_tenant(notification.topic)
        requirement = self._topics.of(topic, tenant_of_topic(notification.topic))
        if requirement is None or topic is None:
            return delivery
        try:
            found = await self._signature_of_native(notification, topic, requirement)
            settled = await self._was_delivered(found)
            if settled and delivery.redelivered:  # The messaging system does not know it yet.
                return None
            under_way = (found.identifier, found.id) in self._under_way
            if settled or (under_way and not delivery.redelivered):
                raise NotSigned(Outcome.REPLAYED, topic, "an event with its signed id came before")
            await self._take_room(found, topic)
        except NotSigned as refused:
            await self._set_aside(delivery, refused)
            return None
        self._outcomes[Outcome.SIGNED] += 1
        observed = self._observed(delivery, found, requirement)
        self._under_way[found.identifier, found.id] = observed
        return observed

    async def _take_room(self, signature: EventSignature, topic: Topic) -> None:
        """Take room for an event of the messaging system, which waits while the store is away.

        Raises:
            NotSigned: There is none: its signer fills its own part alone.
        """
        while True:
            try:
                await self._quotas.take(signature, self._now().timestamp())
            except QuotaExceeded as exceeded:
                raise NotSigned(Outcome.CROWDED, topic, exceeded.text) from exceeded
            except StoreUnavailable as error:
                _log.warning("signed-topics.waits", why=str(error))
                await asyncio.sleep(RETRY)
            else:
                return

    async def remember(self, delivery: Delivery) -> Delivery | None:
        """Remember when what the messaging system yields is settled. For one to which gateways
        alone write, which have checked signatures: nothing is checked. Returns None for a copy of
        what is under way: its sender tried again, later than the messaging system knows ids."""
        notification = delivery.notification
        topic = notification.topic and topic_without_tenant(notification.topic)
        requirement = self._topics.of(topic, tenant_of_topic(notification.topic))
        signature = notification.properties.get(EVENT_SIGNATURE)
        if requirement is None or signature is None:
            return delivery
        try:
            found = requirement.verifier.read(signature, now=self._now())
        except SignatureInvalid:  # Of a signer who does not count any more.
            return delivery
        key = found.identifier, found.id
        if key in self._under_way and not delivery.redelivered:
            return None
        observed = self._observed(delivery, found, requirement)
        self._under_way[key] = observed
        return observed

    def _observed(
        self, delivery: Delivery, found: EventSignature, requirement: Requirement
    ) -> ObservedDelivery:
        def note(notification: Notification) -> None:
            row = _row(found, notification, DELIVERED, requirement, self._now())
            self._noted[row[0], row[1]] = row

        return ObservedDelivery(delivery, note)

    async def is_signed(self, delivery: Delivery) -> bool:
        """Check what the messaging system yields besides, for a filter that it decides itself, as
        `once` does; but what came before is no reason to set it aside: it may be the same message.
        Returns False where it is set aside."""
        notification = delivery.notification
        topic = notification.topic and topic_without_tenant(notification.topic)
        requirement = self._topics.of(topic, tenant_of_topic(notification.topic))
        if requirement is None or topic is None:
            return True
        try:
            await self._signature_of_native(notification, topic, requirement)
        except NotSigned as refused:
            await self._set_aside(delivery, refused)
            return False
        return True

    async def _signature_of_native(
        self, notification: Notification, topic: Topic, requirement: Requirement
    ) -> EventSignature:
        """The signature of what the messaging system yields; of what no gateway of the store has
        accepted its time counts.

        Raises:
            NotSigned: It does not count.
        """
        while True:
            try:
                found = await self._signature(notification, topic, requirement, _NATIVE)
                break
            except Busy:
                await asyncio.sleep(RETRY)
        if not await self._is_known(found, ACCEPTED):
            self._check_time(found, topic, requirement)
        return found

    async def _signature(
        self,
        notification: Notification,
        topic: Topic,
        requirement: Requirement,
        owner: str,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> EventSignature:
        """The signature of an event on *topic*, which has to be as *requirement* says. It is
        verified in a thread, in turn with those of others than *owner*: a chain of certificates
        that is not known yet takes a millisecond.

        Args:
            check: Raises where *owner* has sent too many that do not count. It is asked again when
                the signature has its turn: those that wait behind wrong ones cost nothing.

        Raises:
            NotSigned: It is not; nothing is said of its time.
        """
        signature = notification.properties.get(EVENT_SIGNATURE)
        if signature is None:
            raise NotSigned(Outcome.UNSIGNED, topic, "it has no signature")
        verify = partial(
            requirement.verifier.verify,
            signature,
            notification.payload,
            now=self._now(),
            attachments=[part.content for part in notification.attachments],
            wrapped=True,
        )

        def verify_in_turn() -> EventSignature:
            check()
            return verify()

        check()
        try:
            octets = max(notification.octets, SMALL + 1)
            found = await self._parsing.run_off_loop(octets, verify_in_turn, owner=owner)
        except SignatureInvalid as error:
            raise NotSigned(Outcome.INVALID, topic, error.text) from None
        if found.topic != str(topic):
            why = f"it was signed for {found.topic or 'no topic'}"
            raise NotSigned(Outcome.INVALID, topic, why)
        if not requirement.names_signer(found):
            raise NotSigned(Outcome.INVALID, topic, f"{found.name} is not one of its signers")
        return found

    def _check_time(
        self, signature: EventSignature, topic: Topic, requirement: Requirement
    ) -> None:
        age = self._now() - signature.time
        if not -AHEAD <= age <= requirement.max_age:
            why = f"it was signed at {signature.time.isoformat()}, which does not count now"
            raise NotSigned(Outcome.UNTIMELY, topic, why)

    async def _was_delivered(self, found: EventSignature) -> bool:
        if (found.identifier, found.id) in self._noted:
            return True
        return await self._is_known(found, DELIVERED)

    async def _is_known(self, found: EventSignature, stage: str) -> bool:
        look = partial(signed_events.is_known, signer=found.identifier, event=found.id, stage=stage)
        return await self._patiently(look)

    async def _patiently(self, operation: Callable[[Connection], T]) -> T:
        """Ask the store, again until it is there; the messages behind this one wait, too."""
        while True:
            try:
                return await self._store.submit(operation)
            except StoreUnavailable as error:
                _log.warning("signed-topics.waits", why=str(error))
                await asyncio.sleep(RETRY)

    async def _set_aside(self, delivery: Delivery, refused: NotSigned) -> None:
        self._outcomes[refused.outcome] += 1
        notification = delivery.notification
        death = _death(delivery, refused.text, time.time())
        bury = partial(dead_lettering.bury, notification=notification, death=death)
        _log.warning(
            "event.signature-refused",
            message=notification.id,
            topic=refused.value,
            why=refused.outcome.value,
        )
        await self._patiently(bury)

    async def run(self) -> None:
        """Write to the store what was delivered, for ever."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.flush()
            except StoreUnavailable as error:
                _log.warning("signed-topics.waits", why=str(error))

    async def flush(self) -> None:
        """Write to the store what was delivered.

        Raises:
            StoreUnavailable: It does not take it; it is kept.
        """
        rows = list(self._noted.values())
        if rows:
            now = self._now().timestamp()
            await self._store.submit(partial(signed_events.note, rows=rows, now=now))
            for row in rows:
                self._noted.pop((row[0], row[1]), None)

    def metrics(self) -> Iterator[Sample]:
        """What signatures were found to be."""
        yield counters(
            "event_signatures",
            "Events on topics that take signed ones, by what their signatures were found to be.",
            "outcome",
            {outcome.value: number for outcome, number in self._outcomes.items()},
        )


def _row(
    signature: EventSignature,
    notification: Notification,
    stage: str,
    requirement: Requirement,
    now: datetime,
) -> Row:
    said = f"{notification.source}\n{notification.id}\n{notification.properties[EVENT_SIGNATURE]}"
    until = now + requirement.max_age + AHEAD + timedelta(seconds=WAITING)
    if stage == DELIVERED:  # Longer than it counts as accepted, by whatever gateway's clock.
        until += AHEAD
    carried = hashlib.sha256(said.encode()).hexdigest()
    return signature.identifier, signature.id, stage, carried, until.timestamp()


def _death(delivery: Delivery, why: str, now: float) -> Death:
    notification = delivery.notification
    return Death(
        subscription=NOBODY,
        owner=NOBODY,
        delivery_id=notification.id,
        topic=str(notification.topic),
        reason=DeathReason.SIGNATURE_REFUSED,
        status=None,
        failure=why,
        answer="",
        attempts=0,
        since=notification.time.timestamp(),
        died=now,
        partition=delivery.partition,
    )
