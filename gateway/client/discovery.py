"""Topic discovery for programs: create topics that are provably one's own, make them known, find
those of others, and use them. docs/discovery-clients.md has the dozen lines.

An `Entity` speaks through a `Client`, in any specification that it speaks, and hears in an inbox of
its own, a `Consumer` or `PulledMailbox`, that nothing else reads.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from cryptography.x509 import Certificate

from filters import Refused, Topic
from filters.queries import seconds
from gateway.client.consumer import Consumer
from gateway.client.errors import GatewayError
from gateway.client.messaging import Authorize, Client
from gateway.client.pulling import PulledMailbox
from gateway.client.renewal import RenewedSubscription, subscribed
from gateway.discovery.creator import OwnTopics
from gateway.discovery.node import Dropped
from mediation import Duration
from mediation.discovery import (
    NODES,
    TOPICS,
    Authorization,
    Checked,
    CheckedAdvertisement,
    Created,
    Creator,
    Credentials,
    Delegation,
    Descriptors,
    Dialect,
    EncryptedAdvertisement,
    Head,
    Message,
    NodeDiscoveryRequest,
    NodeDiscoveryResponse,
    Possession,
    Purpose,
    Query,
    Refusal,
    Right,
    Role,
    Scope,
    SignedTopicAdvertisement,
    Signer,
    Synopsis,
    TopicAdvertisement,
    TopicCreationRequest,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    Trust,
    Verifier,
    check_advertisement,
    check_answer,
    check_created,
    encrypt,
    queries_of,
    read_as,
    receive,
    role_of,
    selection_of,
    topic_of,
    write,
)
from mediation.discovery.signing import sign

LIFE = timedelta(seconds=30)
"""How long a message is valid."""
OFFERS_TIME = 1.0
"""Seconds for nodes to offer themselves."""
AGAIN_AFTER = (1.0, 2.0, 4.0)
"""Seconds between searches for nodes that nobody answered."""
CREATION_TIME = 5.0
"""Seconds for a node to make a topic."""
ANSWERS_TIME = 2.0
"""Seconds for answers to a query."""
MOST_NODES = 3
"""Nodes that are asked for a topic, one after the other."""
QUERY_TIME = 0.1
"""Seconds for a query of another over topics of one's own."""
RETRY_EVERY = 5.0
WAITING = 256
"""Answers to one request that may wait to be read."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A node that offers itself, and who it is."""

    offered: NodeDiscoveryResponse
    signer: Signer

    @property
    def node(self) -> str:
        return self.signer.identifier

    @property
    def issuer(self) -> str:
        """The name of the authority that certified it."""
        return self.signer.certificate.issuer.rfc4514_string()


@dataclass(slots=True)
class Found:
    """A topic that was found. Nothing of it is believed before `check`.

    Attributes:
        octets: The SignedTopicAdvertisement.
        answered_by: The node that knows it, or its creator.
    """

    topic_id: UUID
    octets: bytes
    answered_by: str
    _verifier: Verifier = field(repr=False)
    _checked: CheckedAdvertisement | None = field(default=None, repr=False)

    def check(self) -> CheckedAdvertisement:
        """Who made it, which node signed it, and what it is; checked once.

        Raises:
            Refused: It is not what it says.
        """
        if self._checked is None:
            self._checked = check_advertisement(self.octets, self._verifier, now=_now())
        return self._checked

    @property
    def is_genuine(self) -> bool:
        try:
            self.check()
        except Refused:
            return False
        return True


class Entity:
    """Somebody who makes and finds topics: made by `entity`."""

    def __init__(
        self, client: Client, credentials: Credentials, trust: Trust, creator: Creator
    ) -> None:
        self.id = credentials.identifier(Role.ENTITY)
        self.creator = creator
        self._client = client
        self._credentials = credentials
        self._verifier = Verifier(trust)
        self._waiting: dict[UUID, asyncio.Queue[Checked]] = {}
        """What came in answer to a request, by its message id."""
        self._own = OwnTopics(
            credentials, self._verifier, sign=sign, new_uuid=uuid4, chance=random.random
        )
        self._changed = asyncio.Event()

    # Nodes.

    async def find_nodes(
        self,
        *purposes: Purpose,
        institution: str | None = None,
        issuer: str | None = None,
        nodes: Collection[str] | None = None,
        wait: float = OFFERS_TIME,
        again_after: Iterable[float] = AGAIN_AFTER,
    ) -> tuple[Offer, ...]:
        """The nodes that offer themselves, the quickest first; none, if nobody answers.

        Args:
            institution: Nodes that serve it alone are asked.
            issuer: Part of the name of the authority that certified a node.
            nodes: Identifiers of nodes, of which it is to be one.
            wait: Seconds for answers, each time.
            again_after: Seconds after which it is asked again, while nobody answers.
        """
        for pause in (0.0, *again_after):
            await asyncio.sleep(pause)
            request = NodeDiscoveryRequest(self._head(), purposes, institution)
            offers: dict[str, Offer] = {}
            async for answer in self._ask(request, NODES, wait):
                if isinstance(answer.message, NodeDiscoveryResponse) and answer.signer is not None:
                    offer = Offer(answer.message, answer.signer)
                    if (nodes is None or offer.node in nodes) and (issuer or "") in offer.issuer:
                        offers.setdefault(offer.node, offer)
            if offers:
                return tuple(offers.values())
        return ()

    # Topics of one's own.

    async def create_topic(
        self,
        descriptors: Descriptors,
        synopsis: Synopsis,
        *,
        lifetime: timedelta | None = None,
        encrypted: bool = False,
        offers: Iterable[Offer] | None = None,
        wait: float = CREATION_TIME,
    ) -> Created:
        """Have a node make a topic, which nobody knows before it is advertised.

        Args:
            synopsis: A placeholder, into which the node puts a UUID.
            lifetime: None: as long as the node lets it live.
            encrypted: Nobody is to read the advertisement but who gets its key.
            offers: The nodes to ask, one after the other; those that `find_nodes` finds, when None.
            wait: Seconds for one node.

        Raises:
            GatewayError: No node makes it; why, where one says so.
        """
        if offers is None:
            offers = await self.find_nodes(Purpose.CREATE, institution=self.creator.institution)
        why = "no topic discovery node answered"
        for offer in list(offers)[:MOST_NODES]:
            request = TopicCreationRequest(
                self._head(offer.node),
                self.creator,
                descriptors,
                synopsis,
                None if lifetime is None else Duration(0, lifetime),
                encrypted,
            )
            certificate = offer.signer.certificate
            asked = self._ask(request, topic_of(offer.node), wait, certificate)
            async with aclosing(asked):
                async for answer in asked:
                    if isinstance(answer.message, Refusal):
                        why = _refusal(answer.message)
                        break
                    try:
                        return check_created(
                            request, answer, self._verifier, self._credentials, now=_now()
                        )
                    except Refused as refused:
                        why = f"{offer.node} made another topic than asked for: {refused.text}"
        raise GatewayError(why)

    async def advertise(self, created: Created) -> None:
        """Make a topic known, now and again while the entity is there: every sixth of the topic's
        lifetime, at least daily."""
        await self._say(self._own.advertise(created, now=_now()), TOPICS)
        self._changed.set()

    async def withdraw(self, topic_id: UUID) -> None:
        """Take a topic back before it expires."""
        await self._say(self._own.withdraw(topic_id, now=_now()), TOPICS)

    def delegate(
        self,
        topic: TopicAdvertisement,
        grantee: str,
        *rights: Right,
        until: datetime | None = None,
    ) -> bytes:
        """A Delegation: what *grantee*, by its identifier, needs to use a topic of one's own.

        Args:
            until: When it ends; with the topic, when None.
        """
        ends = topic.expires if until is None else min(until, topic.expires)
        id_ = f"dlg-{uuid4()}"
        given = Delegation(id_, topic.topic_id, grantee, frozenset(rights), _now(), ends)
        return sign(given, self._credentials)

    # Topics of others.

    async def discover(
        self,
        query: str,
        dialect: Dialect | str = Dialect.STRING,
        *,
        node: str | None = None,
        creator: str | None = None,
        valid_until: datetime | None = None,
        most: int | None = None,
        wait: float = ANSWERS_TIME,
        creators: bool = True,
    ) -> AsyncGenerator[Found]:
        """Yield topics as they are found, each once, until the time is over or there are *most*.

        Args:
            node: The one to ask; all, when None.
            wait: Seconds for answers.
            creators: Where no node answers, creators are asked, for as long again.

        Raises:
            GatewayError: The query is refused.
        """
        uri = dialect.value if isinstance(dialect, Dialect) else dialect
        known: dict[UUID, Found] = {}
        for scope in (Scope.NODES, Scope.ENTITIES) if creators else (Scope.NODES,):
            request = TopicDiscoveryRequest(
                self._head(node if scope is Scope.NODES else None),
                Query(uri, query),
                valid_until=valid_until,
                creator=creator,
                max_results=most,
                scope=scope,
            )
            there = TOPICS if node is None or scope is Scope.ENTITIES else queries_of(node)
            answered = False
            asked = self._ask(request, there, wait)
            async with aclosing(asked):
                async for answer in asked:
                    if isinstance(answer.message, Refusal):
                        raise GatewayError(
                            _refusal(answer.message), code=answer.message.reason.value
                        )
                    if not isinstance(answer.message, TopicDiscoveryResponse):
                        continue
                    answered = True
                    for found in self._new(answer.message, known):
                        yield found
                        if most is not None and len(known) >= most:
                            return
                    if node is not None:
                        return
            if answered:
                return

    def _new(self, response: TopicDiscoveryResponse, known: dict[UUID, Found]) -> Iterable[Found]:
        """What *response* brings that is not *known*. One that is forged keeps no other out."""
        sender = response.head.sender
        for octets in response.advertisements:
            try:
                topic_id = read_as(SignedTopicAdvertisement, octets).value.topic_id
            except Refused:
                continue
            found = Found(topic_id, octets, sender, self._verifier)
            if role_of(sender) is Role.ENTITY and not (
                # Creators answer for their own topics alone.
                found.is_genuine and found.check().creator.identifier == sender
            ):
                continue
            before = known.get(topic_id)
            if before is None or (before.octets != octets and not before.is_genuine):
                known[topic_id] = found
                yield found

    def subscribed(
        self,
        topic: TopicAdvertisement | Found,
        consumer: str,
        *,
        delegation: bytes | None = None,
    ) -> AbstractAsyncContextManager[RenewedSubscription]:
        """Subscribe the consumer at an address to a topic, for as long as the body runs.

        Raises:
            Refused: The topic is not what it says.
            GatewayError: As `gateway.client.subscribed`; the topic is encrypted, or its events are
                told from others by properties, which no client here can ask for.
        """
        about = _advertisement(topic)
        selection = selection_of(about.synopsis, about.topic_id)
        authorize = self.authorization(about.topic_id, Right.SUBSCRIBE, delegation)
        if selection.topic is not None:
            where = str(selection.topic)
            return subscribed(self._client, consumer, topic=where, authorize=authorize)
        if about.synopsis.document is None:
            raise GatewayError("the topic's events are marked with properties, not with a topic")
        return subscribed(self._client, consumer, xpath=selection.expression)

    async def publish(
        self,
        topic: TopicAdvertisement | Found,
        payload: bytes,
        *,
        delegation: bytes | None = None,
    ) -> str:
        """Publish an event of a topic, as `Client.publish`.

        Raises:
            GatewayError: Also where a topic is not all that its events are marked with.
        """
        about = _advertisement(topic)
        where = selection_of(about.synopsis, about.topic_id).topic
        if where is None:
            raise GatewayError("the topic's events are marked by what they hold, not with a topic")
        authorize = self.authorization(about.topic_id, Right.PUBLISH, delegation)
        return await self._client.publish(payload, topic=str(where), authorize=authorize)

    def authorization(
        self, topic_id: UUID, right: Right, delegation: bytes | None = None
    ) -> Authorize:
        """What proves one's right to a topic in requests of `Client`.

        Args:
            delegation: Its creator's; of topics of one's own there is none.
        """

        def authorize(request: str, address: str) -> str:
            now = _now()
            proof = Possession(f"pos-{uuid4()}", topic_id, right, request, address, now, now + LIFE)
            return write(Authorization(sign(proof, self._credentials), delegation)).decode()

        return authorize

    # Messages.

    def _head(self, to: str | None = None) -> Head:
        now = _now()
        return Head(uuid4(), self.id, now, now + LIFE, to)

    async def _say(self, octets: bytes, topic: Topic) -> None:
        await self._client.publish(octets, topic=str(topic))

    async def _ask(
        self,
        request: NodeDiscoveryRequest | TopicCreationRequest | TopicDiscoveryRequest,
        topic: Topic,
        wait: float,
        certificate: Certificate | None = None,
    ) -> AsyncGenerator[Checked]:
        """Send *request*, encrypted for the holder of *certificate*, and yield what answers it
        within *wait* seconds."""
        octets, head = sign(request, self._credentials), request.head
        if certificate is not None and head.to is not None:
            octets = encrypt(octets, head.to, certificate)
        answers = self._waiting[head.message_id] = asyncio.Queue(WAITING)
        loop = asyncio.get_running_loop()
        try:
            await self._say(octets, topic)
            until = loop.time() + wait
            while True:
                try:
                    async with asyncio.timeout_at(until):
                        answer = await answers.get()
                except TimeoutError:
                    return
                with suppress(Refused):
                    check_answer(head, answer.message.head)
                    yield answer
        finally:
            del self._waiting[head.message_id]

    async def _hear(self, inbox: Consumer | PulledMailbox, group: asyncio.TaskGroup) -> None:
        """Take what comes, for ever."""
        async for message in inbox:
            for notification in message.notifications:
                own = {self.id: self._credentials}
                try:
                    heard = receive(notification.payload, self._verifier, own, now=_now())
                except Refused:
                    continue
                self._take(heard.message, heard, group)

    def _take(self, message: Message, heard: Checked, group: asyncio.TaskGroup) -> None:
        if message.head.in_reply_to is not None:
            answers = self._waiting.get(message.head.in_reply_to)
            if answers is not None and not answers.full():
                answers.put_nowait(heard)
        elif isinstance(message, TopicDiscoveryRequest) and message.head.sender != self.id:
            with suppress(Dropped):
                left = seconds(QUERY_TIME)
                after, answer = self._own.answer(heard.octets, seconds_left=left, now=_now())
                group.create_task(self._answer_later(after, answer.octets, answer.receiver))

    async def _answer_later(self, after: timedelta, octets: bytes, receiver: str) -> None:
        await asyncio.sleep(after.total_seconds())
        with suppress(GatewayError):  # Silence, as of who has nothing to say.
            await self._say(octets, topic_of(receiver))

    async def _advertise_again(self) -> None:
        """Advertise what is due, for ever."""
        late: list[bytes] = []
        while True:
            self._changed.clear()
            pause: float | None = RETRY_EVERY
            if not late:
                due = self._own.next()
                pause = None if due is None else max(0.0, (due - _now()).total_seconds())
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            late += self._own.due(now=_now())
            with suppress(GatewayError):
                while late:
                    await self._say(late[0], TOPICS)
                    del late[0]


@asynccontextmanager
async def entity(
    client: Client,
    inbox: Consumer | PulledMailbox,
    credentials: Credentials,
    trust: Trust,
    *,
    name: str | None = None,
    institution: str | None = None,
    answers: bool = False,
) -> AsyncIterator[Entity]:
    """An entity that hears what is answered to it, and advertises its topics, while the body runs.

    Args:
        inbox: Where it hears; nothing else reads it.
        trust: Whose certificates are believed.
        name, institution: What it calls itself.
        answers: It hears queries to all creators, and answers those about its own topics.

    Raises:
        GatewayError: Its inbox cannot be subscribed, or the subscription was lost: then the body is
            cancelled.
    """
    id_ = credentials.identifier(Role.ENTITY)
    made = Entity(client, credentials, trust, Creator(id_, name, institution))
    # The topic of an entity has no advertisement: its id is what the identifier says of the key.
    own = made.authorization(UUID(hex=id_.removeprefix(Role.ENTITY.value)), Right.SUBSCRIBE)
    there = subscribed(client, inbox.address, topic=str(topic_of(id_)), authorize=own)
    async with there, _heard_by_all(client, inbox, answers):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(made._hear(inbox, group)),
                    group.create_task(made._advertise_again()),
                ]
                yield made
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as several:  # Whatever came first is what went wrong.
            first = several.exceptions[0]
            raise first from first.__cause__


@asynccontextmanager
async def _heard_by_all(
    client: Client, inbox: Consumer | PulledMailbox, answers: bool
) -> AsyncIterator[None]:
    if not answers:
        yield
        return
    async with subscribed(client, inbox.address, topic=str(TOPICS)):
        yield


def _advertisement(topic: TopicAdvertisement | Found) -> TopicAdvertisement:
    if isinstance(topic, TopicAdvertisement):
        return topic
    checked = topic.check().advertisement
    if isinstance(checked, EncryptedAdvertisement):
        raise GatewayError("the advertisement is encrypted: its creator gives its key")
    return checked


def _refusal(refusal: Refusal) -> str:
    return f"{refusal.head.sender} refused: {refusal.text or refusal.reason.value}"


def _now() -> datetime:
    return datetime.now(UTC)
