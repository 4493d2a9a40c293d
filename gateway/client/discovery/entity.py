"""Entities: somebody who makes topics and finds those of others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
)
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from filters.queries import Conditions
from gateway.client.discovery import offers as nodes_there
from gateway.client.discovery import topics
from gateway.client.discovery.exchange import LIFE, Exchange, Inbox, now
from gateway.client.discovery.found import Findings, Found, advertisement_of, opened
from gateway.client.discovery.marks import UUID_NAME, check_marked, marks_of
from gateway.client.discovery.offers import AGAIN_AFTER, OFFERS_TIME, Offer
from gateway.client.discovery.own import Advertising
from gateway.client.discovery.searching import ANSWERS_TIME, Search, search
from gateway.client.discovery.topics import CREATION_TIME
from gateway.client.errors import GatewayError
from gateway.client.events import AnyClient, EventClient
from gateway.client.grid_events import GridClient
from gateway.client.messaging import Authorize, Client
from gateway.client.renewal import RenewedSubscription, subscribed
from mediation.discovery import (
    TOPICS,
    Authorization,
    Checked,
    Created,
    Creator,
    Credentials,
    Delegation,
    Descriptors,
    Dialect,
    Possession,
    Purpose,
    Query,
    Right,
    Role,
    Synopsis,
    TopicAdvertisement,
    Trust,
    Verifier,
    check_kept,
    selection_of,
    topic_of,
    write,
)
from mediation.discovery.signing import sign
from mediation.soap.body_elements import BodyContent, body_element


class Entity:
    """Somebody who makes and finds topics: made by `entity`."""

    def __init__(
        self, client: AnyClient, credentials: Credentials, trust: Trust, creator: Creator
    ) -> None:
        self.id = credentials.identifier(Role.ENTITY)
        self.creator = creator
        self._client = client
        self._credentials = credentials
        self._verifier = Verifier(trust)
        self._exchange = Exchange(client, credentials, self._verifier)
        self._own = Advertising(self._exchange, credentials, self._verifier)

    # Nodes.

    async def find_nodes(
        self,
        *purposes: Purpose,
        institution: str | None = None,
        issuer: str | None = None,
        nodes: Collection[str] | None = None,
        enough: int | None = None,
        wait: float = OFFERS_TIME,
        again_after: Iterable[float] = AGAIN_AFTER,
    ) -> tuple[Offer, ...]:
        """The nodes that offer themselves, the quickest first; none, if nobody answers.

        Args:
            institution: Nodes that serve it alone are asked.
            issuer: Part of the name of the authority that certified a node.
            nodes: Identifiers of nodes, of which it is to be one.
            enough: With so many there is no waiting for others.
            wait: Seconds for answers, each time.
            again_after: Seconds after which it is asked again, while nobody answers.
        """
        return await nodes_there.find_nodes(
            self._exchange, purposes, institution, issuer, nodes, enough, wait, again_after
        )

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
        return await topics.create_topic(
            self._exchange,
            self.creator,
            descriptors,
            synopsis,
            lifetime,
            offers,
            wait,
            self._verifier,
            self._credentials,
            encrypted=encrypted,
        )

    def take_up(self, signed: bytes) -> Created:
        """A topic of one's own that was created earlier; *signed* is what was kept of it,
        `Created.signed`.

        Raises:
            Refused: It is another's, has expired, or is not signed by a node that is believed.
        """
        return check_kept(signed, self._verifier, self._credentials, now=now())

    async def advertise(self, created: Created) -> None:
        """Make a topic known, now and again while the entity is there: every sixth of the topic's
        lifetime, at least daily."""
        await self._own.advertise(created)

    async def withdraw(self, topic_id: UUID) -> None:
        """Take a topic back before it expires."""
        await self._own.withdraw(topic_id)

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
        return delegate(self._credentials, topic, grantee, *rights, until=until)

    # Topics of others.

    def discover(
        self,
        query: str | Query,
        dialect: Dialect | str = Dialect.STRING,
        *,
        node: str | None = None,
        offers: Iterable[Offer] = (),
        creator: str | None = None,
        valid_until: datetime | None = None,
        conditions: Conditions | None = None,
        most: int | None = None,
        wait: float = ANSWERS_TIME,
        creators: bool = True,
    ) -> Search:
        """Topics as they are found, each once, until the time is over or there are *most*.

        Args:
            query: Its text, in *dialect*; or both, as `read_query` makes it.
            node: The one to ask, by its identifier.
            offers: The ones to ask, as `find_nodes` found them. All are asked, where there are
                none, and no *node*.
            conditions: What must hold besides; *creator* and *valid_until* are two of them.
            wait: Seconds for answers.
            creators: Where no node answers, creators are asked, for as long again.

        Raises:
            GatewayError: The query is refused; raised when it is iterated over.
        """
        if not isinstance(query, Query):
            query = Query(dialect.value if isinstance(dialect, Dialect) else dialect, query)
        asked = conditions or Conditions()
        if creator is not None:
            asked = replace(asked, creator=creator)
        if valid_until is not None:
            asked = replace(asked, valid_until=valid_until)
        nodes = [*([] if node is None else [node]), *(offer.node for offer in offers)]
        findings = Findings(self._verifier)
        found = search(self._exchange, query, asked, nodes, most, wait, findings, creators=creators)
        return Search(found, findings)

    def open(self, topic: Found, *keys: bytes) -> TopicAdvertisement | None:
        """What a topic that was found is; None: it is encrypted, and we have no key.

        Args:
            keys: As creators have handed them on (`hand_on`); for topics of one's own none is
                needed.

        Raises:
            Refused: The topic is not what it says.
        """
        checked = topic.check().advertisement
        return opened(checked, self._credentials, self._verifier, keys)

    def subscribed(
        self,
        topic: TopicAdvertisement | Found,
        consumer: str,
        *,
        delegation: bytes | None = None,
        troubled: Callable[[GatewayError], None] = lambda _: None,
    ) -> AbstractAsyncContextManager[RenewedSubscription]:
        """Subscribe the consumer at an address to a topic, for as long as the body runs.

        Raises:
            Refused: The topic is not what it says.
            GatewayError: As `gateway.client.subscribed`; the topic is encrypted, or its events are
                told from others by properties, which an `EventClient` alone can ask for.
        """
        about = advertisement_of(topic)
        selection = selection_of(about.synopsis, about.topic_id)
        if selection.topic is not None:
            authorize = self.authorization(about.topic_id, Right.SUBSCRIBE, delegation)
            return subscribed(
                self._client,
                consumer,
                topic=str(selection.topic),
                authorize=authorize,
                troubled=troubled,
            )
        marks = marks_of(about)
        if marks is None:
            return subscribed(self._client, consumer, xpath=selection.expression, troubled=troubled)
        # The UUID alone tells the topic from all others.
        uuid = {UUID_NAME: marks[UUID_NAME]}
        return subscribed(self._client, consumer, exact=uuid, troubled=troubled)

    async def publish(
        self,
        topic: TopicAdvertisement | Found,
        payload: BodyContent,
        *,
        delegation: bytes | None = None,
    ) -> str:
        """Publish an event of a topic, as `Client.publish`, marked as the topic's synopsis says.

        Raises:
            GatewayError: Also where the client has no place for a mark or a proof, or *payload*
                does not hold what tells the topic's events from others.
            Refused: *payload* is not one acceptable XML element.
        """
        payload = body_element(payload)
        about = advertisement_of(topic)
        where = selection_of(about.synopsis, about.topic_id).topic
        if where is not None:
            if not isinstance(self._client, Client):
                raise GatewayError("a right to publish on a topic is proved in SOAP alone")
            authorize = self.authorization(about.topic_id, Right.PUBLISH, delegation)
            return await self._client.publish(payload, topic=str(where), authorize=authorize)
        marks = marks_of(about)
        if marks is None:
            check_marked(payload, about)
            return await self._client.publish(payload)
        if not isinstance(self._client, EventClient):
            raise GatewayError(
                "events are marked with attributes in CloudEvents alone: speak them (an "
                "EventClient, or --spec cloudevents)"
            )
        return await self._client.publish(payload, attributes=marks)

    def authorization(
        self, topic_id: UUID, right: Right, delegation: bytes | None = None
    ) -> Authorize:
        """What proves one's right to a topic in requests of `Client`.

        Args:
            delegation: Its creator's; of topics of one's own there is none.
        """

        def authorize(request: str, address: str, digest: str) -> str:
            issued = now()
            proof = Possession(
                f"pos-{uuid4()}", topic_id, right, request, address, issued, issued + LIFE, digest
            )
            return write(Authorization(sign(proof, self._credentials), delegation)).decode()

        return authorize

    # At work.

    async def _hear(self, inbox: Inbox, group: asyncio.TaskGroup) -> None:
        """Take what comes, for ever."""

        def answer(heard: Checked) -> None:
            work = self._own.answer_to(heard)
            if work is not None:
                group.create_task(work)

        await self._exchange.hear(inbox, answer)


def delegate(
    credentials: Credentials,
    topic: TopicAdvertisement,
    grantee: str,
    *rights: Right,
    until: datetime | None = None,
) -> bytes:
    """A Delegation by who has *credentials*; see `Entity.delegate`."""
    ends = topic.expires if until is None else min(until, topic.expires)
    id_ = f"dlg-{uuid4()}"
    given = Delegation(id_, topic.topic_id, grantee, frozenset(rights), now(), ends)
    return sign(given, credentials)


@asynccontextmanager
async def entity(
    client: AnyClient,
    inbox: Inbox,
    credentials: Credentials,
    trust: Trust,
    *,
    name: str | None = None,
    institution: str | None = None,
    answers: bool = False,
) -> AsyncIterator[Entity]:
    """An entity that hears what is answered to it, and advertises its topics, while the body runs.

    Args:
        client: What it speaks through; no `GridClient`, whose events are not documents.
        inbox: Where it hears; nothing else reads it.
        trust: Whose certificates are believed.
        name, institution: What it calls itself.
        answers: It hears queries to all creators, and answers those about its own topics.

    Raises:
        GatewayError: It cannot be spoken through *client*, its inbox cannot be subscribed, or the
            subscription was lost: then the body is cancelled.
    """
    if isinstance(client, GridClient):
        raise GatewayError("topic discovery cannot be spoken in Grid SOAP Events")
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
                    group.create_task(made._own.repeat()),
                ]
                yield made
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as several:  # Whatever came first is what went wrong.
            raise several.exceptions[0] from several.exceptions[0].__cause__


@asynccontextmanager
async def _heard_by_all(client: AnyClient, inbox: Inbox, answers: bool) -> AsyncIterator[None]:
    if not answers:
        yield
        return
    async with subscribed(client, inbox.address, topic=str(TOPICS)):
        yield
