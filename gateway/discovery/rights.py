"""Who may use a topic: protected topics, and those of topic discovery itself.

A topic that somebody advertised is its creator's, who lets others publish and subscribe. A request
brings a ``tdn:Authorization``: a header of SOAP, or the property ``tdn_authorization`` (in base64)
of a native message. It is judged (`judge.py`), and each proof counts once, which the store says for
all gateways. What was accepted has a seal, and is not judged again (`seals.py`).

`Entity/<id>` belongs to that entity, and a node's own topics to that node: to subscribe to one, a
stranger proves to have the key; the topic's id is then the digits of the identifier, as a UUID.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import structlog

from adapters import Delivery, ObservedDelivery
from filters import Filter, Reason, Refused, Topic, parse_expression
from gateway.discovery.brought import Asking, Bringing, Brought, brought
from gateway.discovery.judge import ALWAYS, Judge, owner_of
from gateway.discovery.protected import ProtectedTopics
from gateway.discovery.seal_numbers import SealNumbers
from gateway.discovery.seals import PROPERTY as SEAL
from gateway.discovery.seals import Seals
from gateway.exchange import Inbound
from gateway.model.advertisements import AdvertisementLimits
from gateway.observing.samples import Sample
from gateway.security.principals import Principal
from gateway.store import Store
from mediation.discovery import (
    MAX_MESSAGE,
    Decision,
    Denial,
    Right,
    Verifier,
    event_digest,
    is_stranger,
)
from mediation.model.messages import Notification, Rights, Subscription
from mediation.model.requests import Incoming, Publish, Subscribe, SubscribePulling

PROPERTY = "tdn_authorization"
"""The property of native messages with the base64 of a ``tdn:Authorization``."""
REQUEST = "tdn_request"
"""The property with the message id that the proof was made for, where that is not the event's."""
_log = structlog.get_logger("dragoman.discovery")


class TopicRights:
    """Decides who may use *protected* topics.

    Args:
        seals: Made with the secret of all gateways that have the store.
        numbers: Those of seals.
        trusts: Whether an owner of subscriptions is trusted: it may listen to any entity's topic.
        revoked: Ids of delegations.
        addresses: The URLs at which the gateway is reached, as its settings say: what a proof may
            name as its audience, or begin with. What a request says of that counts for nothing.
        needs_digest: A proof without a digest of what it is sent with is refused.
    """

    def __init__(
        self,
        protected: ProtectedTopics,
        store: Store,
        verifier: Verifier,
        *,
        seals: Seals,
        numbers: SealNumbers,
        trusts: Callable[[str], bool],
        revoked: frozenset[str] = frozenset(),
        addresses: frozenset[str] = frozenset(),
        needs_digest: bool = False,
        limits: AdvertisementLimits | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._protected = protected
        self._seals = seals
        self.numbers = numbers
        self._trusts = trusts
        self.now = now
        self.judge = Judge(
            protected,
            store,
            verifier,
            revoked=revoked,
            addresses=addresses,
            needs_digest=needs_digest,
            limits=limits,
        )

    # Requests.

    async def of_request(
        self, request: Subscribe | SubscribePulling, incoming: Incoming, inbound: Inbound
    ) -> Rights | None:
        """The rights that who sent a Subscribe gets; see `of_subscriber`."""
        return await self.of_subscriber(
            request.filter, brought(incoming, inbound), inbound.principal
        )

    async def prove_publisher(
        self, request: Publish, incoming: Incoming, inbound: Inbound
    ) -> Publish:
        """Check who publishes; see `check_publisher`."""
        proof = brought(incoming, inbound)
        notifications = [
            await self.check_publisher(each, proof, inbound.principal)
            for each in request.notifications
        ]
        return replace(request, notifications=tuple(notifications))

    # Subscribers.

    async def of_subscriber(
        self, filter: Filter, proof: Bringing, principal: Principal
    ) -> Rights | None:
        """The rights that a subscription gets; None: it needs none.

        Raises:
            Refused: ``NOT_ALLOWED``: it names a topic in full that it has no right to; ``RATE``.
        """
        guarded = self._guarded(_named(filter), trusted=principal.trusted)
        if not guarded:
            return None
        if len(guarded) > 1:
            raise Refused(
                Reason.NOT_ALLOWED, "A subscription names one topic that belongs to somebody."
            )
        [topic] = guarded
        asking = Asking(proof(), "subscribe", principal)
        decision = await self.judge.decide(topic, Right.SUBSCRIBE, asking, now=self.now())
        if not decision.allowed:
            raise _refusal(topic, decision)
        return Rights(str(topic), decision.until or ALWAYS)

    async def prove_reader(self, topic: Topic, incoming: Incoming, inbound: Inbound) -> None:
        """Check who asks for the last message on *topic*, which takes the right to subscribe.

        Raises:
            Refused: ``NOT_ALLOWED``.
        """
        if not self._guarded([topic], trusted=inbound.principal.trusted):
            return
        asking = Asking(brought(incoming, inbound)(), "subscribe", inbound.principal)
        decision = await self.judge.decide(topic, Right.SUBSCRIBE, asking, now=self.now())
        if not decision.allowed:
            raise _refusal(topic, decision)

    def _guarded(self, topics: Iterable[Topic], *, trusted: bool) -> list[Topic]:
        """Those of *topics* that take a proof, of a *trusted* peer or of another one."""
        guarded = [topic for topic in topics if self.guards(topic)]
        if trusted:
            guarded = [topic for topic in guarded if topic in self._protected]
        return [topic for topic in guarded if not _is_stranger_s(topic)]

    def may_get_current(self, topic: Topic, subscription: Subscription) -> bool:
        """Whether *subscription* gets the last message on *topic*."""
        rights = subscription.policy.rights
        return not self.guards(topic) or self.may_get(
            topic, rights, subscription.filter, subscription.owner
        )

    def may_get(self, topic: Topic, rights: Rights | None, filter: Filter, owner: str) -> bool:
        """Whether a subscription gets what is published on *topic*, which is guarded."""
        if self._protected.why_closed(topic) is not None:
            return False
        if rights is not None and rights.topic == str(topic):
            return rights.until > self.now()
        if topic in self._protected:
            return False
        return self._trusts(owner) or (_is_stranger_s(topic) and topic in _named(filter))

    # Publishers.

    async def check_publisher(
        self, notification: Notification, proof: Bringing, principal: Principal
    ) -> Notification:
        """Check what a publisher in SOAP says on a protected topic; others are as they were.
        Returns it with a seal for who delivers it, and the proof for gateways with other stores.

        Raises:
            Refused: ``NOT_ALLOWED``, ``RATE``.
        """
        topic, protected = notification.topic, self._protected
        if topic is None or topic not in protected:
            return notification
        shown = replace(proof(), digest=partial(event_digest, notification))
        asking = Asking(shown, _use(notification), principal)
        decision = await self.judge.decide(topic, Right.PUBLISH, asking, now=self.now())
        topic_id = protected.id_of(topic)
        if not decision.allowed or topic_id is None:
            raise _refusal(topic, decision)
        number = await self.numbers.take()
        until = decision.until or ALWAYS
        proved = {SEAL: self._seals.seal(notification, topic_id, until, number)}
        octets = asking.brought.authorization
        if octets is not None and decision.proof is not None:
            proved |= {
                PROPERTY: base64.b64encode(octets).decode(),
                REQUEST: asking.brought.request,
            }
        return replace(notification, properties={**notification.properties, **proved})

    async def may_be_delivered(self, notification: Notification, *, came: datetime) -> bool:
        """Whether whoever published *notification*, however, had the right to.

        Args:
            came: When the messaging system yielded it. A proof is judged by that.
        """
        topic, protected = notification.topic, self._protected
        if topic is None or topic not in protected:
            return True
        closed, topic_id = protected.why_closed(topic), protected.id_of(topic)
        if closed is not None or topic_id is None:
            self.judge.counted(Right.PUBLISH, Decision(closed))
            return False
        seal = notification.properties.get(SEAL)
        if seal is not None and self._seals.holds(seal, notification, topic_id, came):
            return True
        octets = None
        text = notification.properties.get(PROPERTY)
        if text is not None and len(text) <= 2 * MAX_MESSAGE:
            try:
                octets = base64.b64decode(text, validate=True)
            except ValueError:
                octets = b""
        request = notification.properties.get(REQUEST, notification.id)
        shown = Brought(octets, request, digest=partial(event_digest, notification))
        asking = Asking(shown, _use(notification))
        if seal is not None and octets is None:
            decision = self.judge.counted(Right.PUBLISH, Decision(Denial.FORGED))
        else:
            decision = await self.judge.decide(
                topic, Right.PUBLISH, asking, now=self.now(), came=came
            )
        if not decision.allowed:
            _log.debug("discovery.not-delivered", topic=str(topic), why=_denial(decision).value)
        return decision.allowed

    async def once(self, delivery: Delivery) -> Delivery | None:
        """*delivery*, if what is sealed in it was not delivered before: that it was is noted when
        it is settled. What has no seal is judged by its proof, which counts once."""
        notification = delivery.notification
        seal, topic = notification.properties.get(SEAL), notification.topic
        if seal is None or topic is None:
            return delivery
        topic_id = self._protected.id_of(topic)
        number = topic_id and self._seals.number(seal, notification, topic_id)
        if not isinstance(number, int):
            return delivery
        if await self.numbers.was_delivered(number):
            decision = self.judge.counted(Right.PUBLISH, Decision(Denial.REPLAYED))
            _log.debug("discovery.not-delivered", topic=str(topic), why=_denial(decision).value)
            return None
        return ObservedDelivery(delivery, lambda _: self.numbers.note(number))

    # Both.

    def guards(self, topic: Topic) -> bool:
        """Whether *topic* is not for everybody: it was advertised, or is somebody's own."""
        return topic in self._protected or owner_of(topic) is not None

    def metrics(self) -> Iterator[Sample]:
        """What was not allowed."""
        return self.judge.metrics()


def _use(notification: Notification) -> str:
    return f"{notification.id} {hashlib.sha256(notification.payload).hexdigest()}"


def _denial(decision: Decision) -> Denial:
    return decision.denial or Denial.MISSING


def _refusal(topic: Topic, decision: Decision) -> Refused:
    why = _denial(decision).value
    return Refused(Reason.NOT_ALLOWED, f"Of the topic {topic}: {why}.", value=str(topic))


def _named(filter: Filter) -> set[Topic]:
    """The topics that *filter* names in full."""
    named: Iterable[Topic] = (
        topic
        for expression in filter.topics
        for topic in (parse_expression(expression).topics or ())
    )
    return set(named)


def _is_stranger_s(topic: Topic) -> bool:
    """Whether *topic* is of somebody without a key: who knows it may listen."""
    owner = owner_of(topic)
    return owner is not None and is_stranger(owner)
