"""Decide who may use a topic: protected topics, and those of topic discovery itself.

A topic that somebody advertised belongs to its creator, who lets others publish and subscribe. A
request brings a ``tdn:Authorization``: in a header of SOAP, or in the property
``tdn_authorization`` (base64) of a native message. `proof_checks.py` checks it, and each proof
counts once, in all gateways of a store. A publication that was accepted gets a seal, and is not
checked again (`seals.py`).

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
from gateway.discovery.proof_checks import ProofChecker
from gateway.discovery.proofs import AccessRequest, RequestProof, proof_of
from gateway.discovery.protected_topics import ProtectedTopics
from gateway.discovery.revocations import Revocations
from gateway.discovery.seal_numbers import SealNumbers
from gateway.discovery.seals import PROPERTY as SEAL
from gateway.discovery.seals import Seals
from gateway.discovery.topic_owners import ALWAYS, owner_of
from gateway.exchange import Inbound
from gateway.model.advertisements import AdvertisementLimits
from gateway.observing.samples import Sample
from gateway.security.principals import Principal
from gateway.store import Store
from mediation.discovery import (
    AUTHORIZATION_PROPERTY,
    MAX_MESSAGE,
    Decision,
    Denial,
    EventSigners,
    Right,
    Trust,
    Verifier,
    event_digest,
    is_stranger,
)
from mediation.event_signatures import EventVerifier, SignatureInvalid, TrustedSigners
from mediation.model.messages import Notification, Rights, Subscription
from mediation.model.requests import Incoming, Publish, Subscribe, SubscribePulling
from mediation.names import EVENT_SIGNATURE

REQUEST = "tdn_request"
"""The property with the message id that the proof was made for, where that is not the event's."""
_log = structlog.get_logger("dragoman.discovery")


class TopicRights:
    """Decides who may use *protected* topics.

    Args:
        seals: Seals with the secret that all gateways of the store share.
        numbers: The numbers of seals.
        trusts: Whether an owner of subscriptions is trusted: it may listen to any entity's topic.
        revocations: Delegations that do not count any more.
        addresses: The URLs at which the gateway is reached, as its settings say: what a proof may
            name as its audience, or begin with. What a request says of that counts for nothing.
        needs_digest: A proof without a digest of its content is refused.
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
        revocations: Revocations | None = None,
        addresses: frozenset[str] = frozenset(),
        needs_digest: bool = False,
        limits: AdvertisementLimits | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._protected = protected
        self._seals = seals
        self.numbers = numbers
        self._trusts = trusts
        self._revocations = Revocations() if revocations is None else revocations
        self.now = now
        self._signatures = event_verifier(verifier.trust)
        self.proofs = ProofChecker(
            protected,
            store,
            verifier,
            revocations=self._revocations,
            addresses=addresses,
            needs_digest=needs_digest,
            limits=limits,
        )

    # Requests.

    async def of_request(
        self, request: Subscribe | SubscribePulling, incoming: Incoming, inbound: Inbound
    ) -> Rights | None:
        """Return the rights that the sender of a Subscribe gets; see `of_subscriber`."""
        return await self.of_subscriber(
            request.filter, proof_of(incoming, inbound), inbound.principal
        )

    async def prove_publisher(
        self, request: Publish, incoming: Incoming, inbound: Inbound
    ) -> Publish:
        """Check the right of a publisher; see `check_publisher`."""
        proof = proof_of(incoming, inbound)
        notifications = [
            await self.check_publisher(each, proof, inbound.principal)
            for each in request.notifications
        ]
        return replace(request, notifications=tuple(notifications))

    # Subscribers.

    async def of_subscriber(
        self, filter: Filter, proof: RequestProof, principal: Principal
    ) -> Rights | None:
        """Return the rights that a subscription gets; None: it needs none.

        Raises:
            Refused: ``NOT_ALLOWED``: it names a topic in full that it has no right to; ``RATE``.
        """
        guarded = self._guarded(_named(filter), trusted=not principal.limits.guarded)
        if not guarded:
            return None
        if len(guarded) > 1:
            raise Refused(
                Reason.NOT_ALLOWED,
                "A subscription may name one topic that belongs to somebody, not several.",
            )
        [topic] = guarded
        decision = await self._check_subscriber(topic, proof, principal)
        return Rights(str(topic), decision.until or ALWAYS, decision.delegation)

    async def prove_reader(self, topic: Topic, incoming: Incoming, inbound: Inbound) -> None:
        """Check who asks for the last message on *topic*, which takes the right to subscribe.

        Raises:
            Refused: ``NOT_ALLOWED``.
        """
        if self._guarded([topic], trusted=not inbound.principal.limits.guarded):
            await self._check_subscriber(topic, proof_of(incoming, inbound), inbound.principal)

    async def _check_subscriber(
        self, topic: Topic, proof: RequestProof, principal: Principal
    ) -> Decision:
        request = AccessRequest(proof, "subscribe", principal, proof.digest)
        decision = await self.proofs.check(topic, Right.SUBSCRIBE, request, now=self.now())
        if not decision.allowed:
            raise _refusal(topic, decision)
        return decision

    def _guarded(self, topics: Iterable[Topic], *, trusted: bool) -> list[Topic]:
        """Return those of *topics* that take a proof, of a *trusted* peer or of another one."""
        guarded = [topic for topic in topics if self.guards(topic)]
        if trusted:
            guarded = [topic for topic in guarded if topic in self._protected]
        return [topic for topic in guarded if not _is_stranger_s(topic)]

    def may_get_current(self, topic: Topic, subscription: Subscription) -> bool:
        """Return True if *subscription* gets the last message on *topic*."""
        rights = subscription.policy.rights
        return not self.guards(topic) or self.may_get(
            topic, rights, subscription.filter, subscription.owner
        )

    def still_holds(self, topic: Topic, delegation: str | None) -> bool:
        """Return True if what a subscription got on *topic* by *delegation* may be fetched still:
        neither was taken back."""
        if topic not in self._protected:
            return True
        closed = self._protected.why_closed(topic) is not None
        return not closed and not self._is_revoked(topic, delegation)

    def may_get(self, topic: Topic, rights: Rights | None, filter: Filter, owner: str) -> bool:
        """Return True if a subscription gets what is published on *topic*, which is guarded."""
        if self._protected.why_closed(topic) is not None:
            return False
        if rights is not None and rights.topic == str(topic):
            return rights.until > self.now() and not self._is_revoked(topic, rights.delegation)
        if topic in self._protected:
            return False
        return self._trusts(owner) or (_is_stranger_s(topic) and topic in _named(filter))

    def _is_revoked(self, topic: Topic, delegation: str | None) -> bool:
        if delegation is None:
            return False
        return delegation in self._revocations.of(self._protected.id_of(topic) or "")

    # Publishers.

    async def check_publisher(
        self, notification: Notification, proof: RequestProof, principal: Principal
    ) -> Notification:
        """Check a publication on a protected topic; others stay as they are. Returns it with a
        seal, for the gateway that delivers it, and with the proof, for gateways of other stores.

        Raises:
            Refused: ``NOT_ALLOWED``, ``RATE``.
        """
        topic, protected = notification.topic, self._protected
        if topic is None or topic not in protected:
            return notification
        digest = partial(event_digest, notification)
        request = AccessRequest(proof, _use(notification), principal, digest)
        decision = await self.proofs.check(topic, Right.PUBLISH, request, now=self.now())
        decision = self._check_signer(decision, topic, notification)
        topic_id = protected.id_of(topic)
        if not decision.allowed or topic_id is None:
            raise _refusal(topic, decision)
        number = await self.numbers.take()
        until = decision.until or ALWAYS
        proved = {SEAL: self._seals.seal(notification, topic_id, until, number)}
        octets = proof.read_authorization()  # `check` has parsed the envelope.
        if octets is not None and decision.proof is not None:
            proved |= {
                AUTHORIZATION_PROPERTY: base64.b64encode(octets).decode(),
                REQUEST: proof.request,
            }
        return replace(notification, properties={**notification.properties, **proved})

    async def may_be_delivered(self, notification: Notification, *, came: datetime) -> bool:
        """Return True if the publisher of *notification* had the right to its topic, whether it
        was published here or at the messaging system.

        Args:
            came: When the messaging system yielded it. The times of a proof are held against that.
        """
        topic, protected = notification.topic, self._protected
        if topic is None or topic not in protected:
            return True
        closed, topic_id = protected.why_closed(topic), protected.id_of(topic)
        if closed is not None or topic_id is None:
            self.proofs.counted(Right.PUBLISH, Decision(closed))
            return False
        seal = notification.properties.get(SEAL)
        if seal is not None and self._seals.holds(seal, notification, topic_id, came):
            return True
        octets = _authorization_of(notification)
        if seal is not None and octets is None:
            decision = self.proofs.counted(Right.PUBLISH, Decision(Denial.FORGED))
        else:
            id_ = notification.properties.get(REQUEST, notification.id)
            request = AccessRequest(
                RequestProof(id_, authorization=octets),
                _use(notification),
                digest=partial(event_digest, notification),
            )
            decision = await self.proofs.check(
                topic, Right.PUBLISH, request, now=self.now(), came=came
            )
            decision = self._check_signer(decision, topic, notification)
        if not decision.allowed:
            _log.debug("discovery.not-delivered", topic=str(topic), why=_denial(decision).value)
        return decision.allowed

    def _check_signer(
        self, decision: Decision, topic: Topic, notification: Notification
    ) -> Decision:
        """Deny an event that its publisher has to sign, and that another signed. That its signature
        counts at all, is checked with those of all topics on which events must be signed."""
        demand = self._protected.demand_of(topic)
        if not decision.allowed or demand is None or demand.signers is EventSigners.CREATOR:
            return decision
        try:
            signature = notification.properties.get(EVENT_SIGNATURE, "")
            signer = self._signatures.read(signature, now=self.now()).identifier
        except SignatureInvalid:
            signer = ""
        if signer in (decision.holder, demand.creator):
            return decision
        return self.proofs.counted(Right.PUBLISH, replace(decision, denial=Denial.OTHER_SIGNER))

    async def once(self, delivery: Delivery) -> Delivery | None:
        """Return *delivery*, or None if a publication with its seal was delivered before. That it
        was is noted when it is settled. One without a seal is checked by its proof, which counts
        once."""
        notification = delivery.notification
        seal, topic = notification.properties.get(SEAL), notification.topic
        if seal is None or topic is None:
            return delivery
        topic_id = self._protected.id_of(topic)
        number = topic_id and self._seals.number(seal, notification, topic_id)
        if not isinstance(number, int):
            return delivery
        if await self.numbers.was_delivered(number):
            decision = self.proofs.counted(Right.PUBLISH, Decision(Denial.REPLAYED))
            _log.debug("discovery.not-delivered", topic=str(topic), why=_denial(decision).value)
            return None
        return ObservedDelivery(delivery, lambda _: self.numbers.note(number))

    # Both.

    def guards(self, topic: Topic) -> bool:
        """Return True if *topic* is not for everybody: it was advertised, or is somebody's own."""
        return topic in self._protected or owner_of(topic) is not None

    def metrics(self) -> Iterator[Sample]:
        """Return the numbers of denials."""
        return self.proofs.metrics()

    async def close(self) -> None:
        """End what runs; note in the store which seals were delivered."""
        self.proofs.close()
        await self.numbers.close()


def event_verifier(trust: Trust) -> EventVerifier:
    """Return what tells who signed events, of the entities that a node trusts."""
    return EventVerifier(TrustedSigners(trust.entities, {}, trust.refused))


def _authorization_of(notification: Notification) -> bytes | None:
    """Return the ``tdn:Authorization`` of a native message; empty where it cannot be read."""
    text = notification.properties.get(AUTHORIZATION_PROPERTY)
    if text is None or len(text) > 2 * MAX_MESSAGE:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _use(notification: Notification) -> str:
    return f"{notification.id} {hashlib.sha256(notification.payload).hexdigest()}"


def _denial(decision: Decision) -> Denial:
    return decision.denial or Denial.MISSING


def _refusal(topic: Topic, decision: Decision) -> Refused:
    why = _denial(decision).value
    return Refused(
        Reason.NOT_ALLOWED, f"The topic {topic} may not be used: {why}.", value=str(topic)
    )


def _named(filter: Filter) -> set[Topic]:
    """Return the topics that *filter* names in full."""
    named: Iterable[Topic] = (
        topic
        for expression in filter.topics
        for topic in (parse_expression(expression).topics or ())
    )
    return set(named)


def _is_stranger_s(topic: Topic) -> bool:
    """Return True if *topic* is of somebody without a key: who knows it may listen."""
    owner = owner_of(topic)
    return owner is not None and is_stranger(owner)
