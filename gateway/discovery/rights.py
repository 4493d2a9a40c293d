"""Who may use a topic: protected topics, and those of topic discovery itself.

A topic that somebody advertised is its creator's, who lets others publish and subscribe. A request
brings a ``tdn:Authorization``: a header of SOAP, or the property ``tdn_authorization`` (in base64)
of a native message. `mediation.discovery.decide` judges it; each proof counts once, which the store
says for all gateways. What was accepted has a seal, and is not judged again (`seals.py`).

`Entity/<id>` belongs to that entity, and a node's own topics to that node: to subscribe to one, a
stranger proves to have the key; the topic's id is then the digits of the identifier, as a UUID.
"""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509 import load_der_x509_certificate
from lxml import etree

from filters import Filter, Reason, Refused, Topic, parse_document, parse_expression
from gateway.discovery.seals import PROPERTY as SEAL
from gateway.discovery.seals import Seals
from gateway.discovery.service import DiscoveryService
from gateway.exchange import Inbound
from gateway.model.advertisements import AdvertisementLimits, Claimed
from gateway.observing.samples import Sample, counters
from gateway.store import Store, advertisements, claims
from gateway.store.advertisements import LOCK
from mediation import (
    Incoming,
    Notification,
    Publish,
    Rights,
    Subscribe,
    SubscribePulling,
    Subscription,
)
from mediation.discovery import (
    MAX_MESSAGE,
    Access,
    AnyAdvertisement,
    Authorization,
    Creator,
    Decision,
    Denial,
    Descriptors,
    Possession,
    Right,
    Role,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
    Verifier,
    check_advertisement,
    decide,
    identifier_of,
    is_stranger,
    read_as,
    role_of,
)
from mediation.names import TDN

PROPERTY = "tdn_authorization"
"""The property of native messages with the base64 of a ``tdn:Authorization``."""
REQUEST = "tdn_request"
"""The property with the message id that the proof was made for, where that is not the event's."""
BLOCK = f"{{{TDN}}}Authorization"
MARGIN = timedelta(minutes=10)
"""For how long after its end a proof is remembered, for events that were on their way."""
_ALWAYS = datetime(9999, 1, 1, tzinfo=UTC)
_log = structlog.get_logger("dragoman.discovery")


@dataclass(frozen=True, slots=True)
class Brought:
    """What a request proves a right by.

    Attributes:
        authorization: The ``tdn:Authorization``, if any.
        request: The id of the request.
        certificate: The client's, in DER, where it showed one to TLS: it stands for a possession.
    """

    authorization: bytes | None
    request: str
    certificate: bytes | None = None


@dataclass(frozen=True, slots=True)
class Asking:
    """What a request brings.

    Attributes:
        audiences: The addresses that it may have been sent to.
        use: What the proof is used for: for the same it may be used again.
    """

    brought: Brought
    audiences: frozenset[str]
    use: str


def authorization_in(envelope: bytes) -> bytes | None:
    """The header block ``tdn:Authorization`` of an envelope that was read already."""
    if b"Authorization" not in envelope or TDN.encode() not in envelope:
        return None
    try:
        header = next(iter(parse_document(envelope)), None)
    except Refused:  # What is no SOAP has no header.
        return None
    if header is None:
        return None
    found = [block for block in header if block.tag == BLOCK]
    return etree.tostring(found[0], with_tail=False) if len(found) == 1 else None


Bringing = Callable[[], Brought]
"""Looks what a request brings: few need it."""


def brought(incoming: Incoming, inbound: Inbound) -> Bringing:
    """What a request brings: beside it, or in a header of its envelope."""

    def look() -> Brought:
        if inbound.proof is not None:
            authorization: bytes | None = inbound.proof.authorization
            request = inbound.proof.request
        else:
            authorization = authorization_in(inbound.octets)
            request = incoming.context.headers.message_id or ""
        return Brought(authorization, request, inbound.certificate)

    return look


class TopicRights:
    """Decides who may use the topics that *discovery* knows.

    Args:
        seals: Made with the secret of all gateways that have the store.
        trusts: Whether an owner of subscriptions is trusted: it may listen to any entity's topic.
        revoked: Ids of delegations.
        addresses: Under which the gateway is known.
    """

    def __init__(
        self,
        discovery: DiscoveryService,
        store: Store,
        verifier: Verifier,
        *,
        seals: Seals,
        trusts: Callable[[str], bool],
        revoked: frozenset[str] = frozenset(),
        addresses: frozenset[str] = frozenset(),
        limits: AdvertisementLimits | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._discovery = discovery
        self._store = store
        self._verifier = verifier
        self._seals = seals
        self._trusts = trusts
        self._revoked = revoked
        self._addresses = addresses
        self._limits = limits or AdvertisementLimits()
        self.now = now
        self._denials: dict[str, int] = {}

    # Requests.

    async def of_request(
        self, request: Subscribe | SubscribePulling, incoming: Incoming, inbound: Inbound
    ) -> Rights | None:
        """The rights that who sent a Subscribe gets; see `of_subscriber`."""
        return await self.of_subscriber(
            request.filter,
            brought(incoming, inbound),
            inbound.base + inbound.path,
            trusted=inbound.principal.trusted,
        )

    async def prove_publisher(
        self, request: Publish, incoming: Incoming, inbound: Inbound
    ) -> Publish:
        """Check who publishes; see `check_publisher`."""
        proof, address = brought(incoming, inbound), inbound.base + inbound.path
        notifications = [
            await self.check_publisher(each, proof, address) for each in request.notifications
        ]
        return replace(request, notifications=tuple(notifications))

    # Subscribers.

    async def of_subscriber(
        self, filter: Filter, proof: Bringing, address: str, *, trusted: bool
    ) -> Rights | None:
        """The rights that a subscription gets; None: it needs none.

        Raises:
            Refused: ``NOT_ALLOWED``: it names a topic in full that it has no right to.
        """
        guarded = self._closed(_named(filter), trusted=trusted)
        if not guarded:
            return None
        if len(guarded) > 1:
            raise Refused(
                Reason.NOT_ALLOWED, "A subscription names one topic that belongs to somebody."
            )
        [topic] = guarded
        asking = Asking(proof(), self._known_as(address), "subscribe")
        decision = await self._decide(topic, Right.SUBSCRIBE, asking)
        if not decision.allowed:
            raise _refusal(topic, decision)
        return Rights(str(topic), decision.until or _ALWAYS)

    async def prove_reader(self, topic: Topic, incoming: Incoming, inbound: Inbound) -> None:
        """Check who asks for the last message on *topic*, which takes the right to subscribe.

        Raises:
            Refused: ``NOT_ALLOWED``.
        """
        if not self._closed([topic], trusted=inbound.principal.trusted):
            return
        addresses = self._known_as(inbound.base + inbound.path)
        asking = Asking(brought(incoming, inbound)(), addresses, "subscribe")
        decision = await self._decide(topic, Right.SUBSCRIBE, asking)
        if not decision.allowed:
            raise _refusal(topic, decision)

    def _closed(self, topics: Iterable[Topic], *, trusted: bool) -> list[Topic]:
        """Those of *topics* that take a proof, of a *trusted* peer or of another one."""
        guarded = [topic for topic in topics if self.guards(topic)]
        if trusted:
            guarded = [topic for topic in guarded if str(topic) in self._discovery.protected]
        return [topic for topic in guarded if not _is_stranger_s(topic)]

    def may_get_current(self, topic: Topic, subscription: Subscription) -> bool:
        """Whether *subscription* gets the last message on *topic*."""
        rights = subscription.policy.rights
        return not self.guards(topic) or self.may_get(
            topic, rights, subscription.filter, subscription.owner
        )

    def may_get(self, topic: Topic, rights: Rights | None, filter: Filter, owner: str) -> bool:
        """Whether a subscription gets what is published on *topic*, which is guarded."""
        if rights is not None and rights.topic == str(topic):
            return rights.until > self.now()
        if str(topic) in self._discovery.protected:
            return False
        return self._trusts(owner) or (_is_stranger_s(topic) and topic in _named(filter))

    # Publishers.

    async def check_publisher(
        self, notification: Notification, proof: Bringing, address: str
    ) -> Notification:
        """Check what a publisher in SOAP says on a protected topic; others are as they were.
        Returns it with a seal for who delivers it, and the proof for gateways with other stores.

        Raises:
            Refused: ``NOT_ALLOWED``.
        """
        topic = notification.topic
        topic_id = None if topic is None else self._discovery.protected.get(str(topic))
        if topic is None or topic_id is None:
            return notification
        asking = Asking(proof(), self._known_as(address), _use(notification))
        decision = await self._decide(topic, Right.PUBLISH, asking)
        if not decision.allowed:
            raise _refusal(topic, decision)
        proved = {SEAL: self._seals.seal(notification, topic_id, decision.until or _ALWAYS)}
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
        topic = notification.topic
        topic_id = None if topic is None else self._discovery.protected.get(str(topic))
        if topic is None or topic_id is None:
            return True
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
        asking = Asking(Brought(octets, request), self._known_as(""), _use(notification))
        if seal is not None and octets is None:
            decision = self._counted(Right.PUBLISH, Decision(Denial.FORGED))
        else:
            decision = await self._decide(topic, Right.PUBLISH, asking, came)
        if not decision.allowed:
            _log.debug("discovery.not-delivered", topic=str(topic), why=_denial(decision).value)
        return decision.allowed

    # Both.

    def guards(self, topic: Topic) -> bool:
        """Whether *topic* is not for everybody: it was advertised, or is somebody's own."""
        return str(topic) in self._discovery.protected or _owner(topic) is not None

    async def _decide(
        self, topic: Topic, right: Right, asking: Asking, came: datetime | None = None
    ) -> Decision:
        if asking.brought.authorization is None and asking.brought.certificate is None:
            return self._counted(right, Decision(Denial.MISSING))  # Which costs nothing.
        now = came or self.now()
        advertisement = await self._advertisement(topic, now)
        decision = await asyncio.to_thread(partial(self._judge, advertisement, right, asking, now))
        if decision.allowed and decision.proof is not None:
            decision = await self._claim(decision, asking)
        return self._counted(right, decision)

    def _holder(self, certificate: bytes) -> str | None:
        """Whose key *certificate* has; None where it cannot be read, or who it is is refused."""
        try:
            holder = identifier_of(load_der_x509_certificate(certificate), Role.ENTITY)
        except (ValueError, UnsupportedAlgorithm):
            return None
        return None if holder in self._verifier.trust.refused else holder

    def _counted(self, right: Right, decision: Decision) -> Decision:
        if not decision.allowed:
            name = _denial(decision).name.lower().replace("_", "-")
            key = f"{right.value}-{name}"
            self._denials[key] = self._denials.get(key, 0) + 1
        return decision

    def _judge(
        self, topic: AnyAdvertisement | None, right: Right, asking: Asking, now: datetime
    ) -> Decision:
        if topic is None:
            return Decision(Denial.EXPIRED)
        holder, audience, shown = None, "", asking.brought
        try:
            if shown.authorization is not None:
                said = read_as(Authorization, shown.authorization).value
            else:
                said = Authorization(None)
            if said.possession is not None:
                audience = read_as(Possession, said.possession).value.audience
            elif shown.certificate is not None:
                holder = self._holder(shown.certificate)
        except Refused:
            return Decision(Denial.MALFORMED)
        return decide(
            topic,
            Access(right, shown.request, self._audiences(asking, audience)),
            self._verifier,
            now=now,
            possession=said.possession,
            delegation=said.delegation,
            holder=holder,
            revoked=self._revoked,
        )

    async def _advertisement(self, topic: Topic, now: datetime) -> AnyAdvertisement | None:
        """What says whose *topic* is; None where that has expired."""
        topic_id = self._discovery.protected.get(str(topic))
        if topic_id is None:
            owner = _owner(topic)
            return None if owner is None else _own(owner)
        rows = await self._store.submit(partial(advertisements.load, topic_ids=[topic_id]))
        if not rows or rows[0].octets is None:
            return None
        check = partial(check_advertisement, rows[0].octets, self._verifier, now=now)
        try:
            return (await asyncio.to_thread(check)).advertisement
        except Refused:  # Its certificate has expired, or it has.
            return None

    async def _claim(self, decision: Decision, asking: Asking) -> Decision:
        assert decision.proof is not None
        id_, expires = decision.proof
        now = self.now()
        claimed = await self._store.submit(
            partial(
                claims.claim,
                sender=decision.holder,
                message=id_,
                notification=asking.use,
                # What came in time may be judged late: it must not come again after that, either.
                expires=(max(expires, now) + MARGIN).timestamp(),
                now=now.timestamp(),
                limits=self._limits,
                kind=claims.PROOF,
                once=asking.use == "subscribe",
            ),
            locks=(LOCK,),
        )
        if claimed is Claimed.YES:
            return decision
        denial = Denial.REPLAYED if claimed is Claimed.REPLAYED else Denial.CROWDED
        return replace(decision, denial=denial)

    def _audiences(self, asking: Asking, named: str) -> frozenset[str]:
        """The addresses of this gateway, *named* among them where it is below one."""
        below = self._addresses | asking.audiences  # That of SOAP.TCP is known by what came alone.
        own = any(named.startswith(f"{address}/") for address in below)
        return asking.audiences | {named} if own else asking.audiences

    def _known_as(self, address: str) -> frozenset[str]:
        return self._addresses | {address} if address else self._addresses

    def metrics(self) -> Iterator[Sample]:
        """What was not allowed."""
        yield counters(
            "discovery_denials",
            "Requests and messages without the right to a topic, by right and reason.",
            "reason",
            dict(self._denials),
        )


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


def _owner(topic: Topic) -> str | None:
    """Whose topic of topic discovery *topic* is; None: everybody's, or none of those."""
    steps = topic.steps
    if steps[0].namespace != TDN:
        return None
    if steps[0].name == "Entity" and len(steps) == 2:
        return steps[1].name
    if steps[0].name == "Services" and len(steps) == 4:
        return steps[3].name
    return None


def _is_stranger_s(topic: Topic) -> bool:
    """Whether *topic* is of somebody without a key: who knows it may listen."""
    owner = _owner(topic)
    return owner is not None and is_stranger(owner)


def _own(owner: str) -> TopicAdvertisement | None:
    """What says that the topic of *owner* is its own."""
    role = role_of(owner)
    try:
        topic_id = UUID(owner.removeprefix("" if role is None else role.value))
    except ValueError:
        return None
    begins = datetime(1970, 1, 1, tzinfo=UTC)
    return TopicAdvertisement(
        topic_id, "", Creator(owner if role is Role.ENTITY else ""), begins, _ALWAYS,
        Descriptors(), Synopsis(SynopsisType.PATH),
    )  # fmt: skip
