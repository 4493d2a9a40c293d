"""Entities, which make topics, and find and use those of others: `entity`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
)
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from filters import Topic
from filters.queries import Conditions
from gateway.client.discovery import node_search, topic_creation
from gateway.client.discovery.exchange import LIFE, Exchange, Inbox, now
from gateway.client.discovery.node_search import AGAIN_AFTER, OFFERS_TIME, Offer
from gateway.client.discovery.search_results import (
    Found,
    SearchResults,
    advertisement_of,
    decrypted_advertisement,
)
from gateway.client.discovery.synopses import UUID_NAME, check_content, synopsis_attributes
from gateway.client.discovery.topic_advertising import TopicAdvertiser
from gateway.client.discovery.topic_creation import CREATION_TIME
from gateway.client.discovery.topic_search import ANSWERS_TIME, Search, search
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
    Mismatch,
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
    read_as,
    selection_of,
    topic_of,
    write,
)
from mediation.discovery.signing import sign
from mediation.event_signatures import EventSigner
from mediation.soap.body_elements import BodyContent, body_element


class Entity:
    """An entity: it makes topics and finds topics. `entity` makes one."""

    def __init__(
        self, client: AnyClient, credentials: Credentials, trust: Trust, creator: Creator
    ) -> None:
        self.id = credentials.identifier(Role.ENTITY)
        self.creator = creator
        self._client = client
        self._credentials = credentials
        self._verifier = Verifier(trust)
        self._exchange = Exchange(client, credentials, self._verifier)
        self._own = TopicAdvertiser(self._exchange, credentials, self._verifier)

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
        """Return the nodes that offer themselves, the quickest first; none if no node answers.

        Args:
            institution: Only nodes that serve it answer.
            issuer: A part of the name of the authority that certified the node.
            nodes: Identifiers of the nodes that are acceptable.
            enough: The number of offers after which it waits no longer.
            wait: Seconds for answers, each time.
            again_after: Seconds between requests, while no node answers.
        """
        return await node_search.find_nodes(
            self._exchange, purposes, institution, issuer, nodes, enough, wait, again_after
        )

    # The entity's own topics.

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
        """Have a node make a topic. Nobody knows it before it is advertised.

        Args:
            synopsis: A placeholder, into which the node puts a UUID.
            lifetime: As long as the node allows, when None.
            encrypted: Only holders of its key can read the advertisement.
            offers: The nodes to ask, one after the other; those that `find_nodes` finds, when None.
            wait: Seconds for one node.

        Raises:
            GatewayError: No node makes it; the text has the reason that one gave.
        """
        if offers is None:
            offers = await self.find_nodes(Purpose.CREATE, institution=self.creator.institution)
        return await topic_creation.create_topic(
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
        """Return an own topic that was created earlier; *signed* is what was kept of it,
        `Created.signed`.

        Raises:
            Refused: It is another's, has expired, or is not signed by a trusted node.
        """
        return check_kept(signed, self._verifier, self._credentials, now=now())

    async def advertise(self, created: Created) -> None:
        """Advertise a topic now, and again as long as the entity runs: after every sixth of the
        topic's lifetime, at least daily."""
        await self._own.advertise(created)

    async def withdraw(self, topic_id: UUID) -> None:
        """Withdraw a topic before it expires."""
        await self._own.withdraw(topic_id)

    def delegate(
        self,
        topic: TopicAdvertisement,
        grantee: str,
        *rights: Right,
        until: datetime | None = None,
    ) -> bytes:
        """Return a Delegation, with which *grantee*, an identifier, may use an own topic.

        Args:
            until: When it ends; with the topic, when None.
        """
        return delegate(self._credentials, topic, grantee, *rights, until=until)

    async def revoke(self, topic: TopicAdvertisement, delegation: bytes | str) -> bytes:
        """Take back a right to an own topic before it ends: nodes end what rests on it.

        Args:
            delegation: What `delegate` returned; or its id, where that is lost. By its id alone it
                is taken back for as long as the topic lives.

        Returns:
            The signed message. Nodes that were away learn of it when it is published again: with
            the advertisement, as long as the entity runs, and by `publish_revocation`.

        Raises:
            GatewayError: It cannot be sent now. Refused: *delegation* is none, or of another topic.
        """
        id_, until = revocable(topic, delegation)
        return await self._own.revoke(topic.topic_id, id_, until)

    async def publish_revocation(self, revocation: bytes) -> None:
        """Publish again what `revoke` returned, now and whenever its topic is advertised again.

        Raises:
            GatewayError: It cannot be sent now. Refused: It is no revocation.
        """
        await self._own.publish_revocation(revocation)

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
        """Return topics as they are found, each once, until the time is over or there are *most*.

        Args:
            query: Its text, in *dialect*; or both, as `read_query` makes it.
            node: The identifier of the node to ask.
            offers: The nodes to ask, as `find_nodes` found them. Without them and without *node*,
                all nodes are asked.
            conditions: Further conditions; *creator* and *valid_until* are two of them.
            wait: Seconds for answers.
            creators: Creators are asked if no node answers, for as long again.

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
        results = SearchResults(self._verifier)
        found = search(self._exchange, query, asked, nodes, most, wait, results, creators=creators)
        return Search(found, results)

    def open(self, topic: Found, *keys: bytes) -> TopicAdvertisement | None:
        """Return the advertisement of a topic that was found; None if it is encrypted, and no key
        decrypts it.

        Args:
            keys: Keys that creators have handed on (`hand_on`); own topics need none.

        Raises:
            Refused: The advertisement is not genuine, or has expired.
        """
        checked = topic.check().advertisement
        return decrypted_advertisement(checked, self._credentials, self._verifier, keys)

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
            Refused: The advertisement is not genuine, or has expired.
            GatewayError: As `gateway.client.subscribed`; the topic is encrypted, or its events are
                told from others by properties, which only an `EventClient` can ask for.
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
        marks = synopsis_attributes(about)
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
        """Publish an event of a topic, as `Client.publish`, marked as the topic's synopsis says,
        and signed where its creator asks for that.

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
                raise GatewayError(
                    "a right to publish on a topic can only be proved in SOAP: use a Client"
                )
            authorize = self.authorization(about.topic_id, Right.PUBLISH, delegation)
            sign = self._sign_event if about.descriptors.signers is not None else None
            return await self._client.publish(
                payload, topic=str(where), authorize=authorize, sign=sign
            )
        marks = synopsis_attributes(about)
        if marks is None:
            check_content(payload, about)
            return await self._client.publish(payload)
        if not isinstance(self._client, EventClient):
            raise GatewayError(
                "only CloudEvents have attributes to mark events with: use an EventClient, or "
                "--spec cloudevents"
            )
        return await self._client.publish(payload, properties=marks)

    def _sign_event(self, payload: bytes, id: str, topic: Topic | None) -> str:
        return EventSigner(self._credentials).sign(payload, id=id, topic=topic, time=now())

    def authorization(
        self, topic_id: UUID, right: Right, delegation: bytes | None = None
    ) -> Authorize:
        """Return a function that proves the right to a topic in requests of `Client`.

        Args:
            delegation: The creator's; own topics need none.
        """

        def authorize(request: str, address: str, digest: str) -> str:
            issued = now()
            proof = Possession(
                f"pos-{uuid4()}", topic_id, right, request, address, issued, issued + LIFE, digest
            )
            return write(Authorization(sign(proof, self._credentials), delegation)).decode()

        return authorize

    # Messages.

    async def _receive(self, inbox: Inbox, group: asyncio.TaskGroup) -> None:
        """Take messages, and answer queries about own topics, for ever."""

        def answer(received: Checked) -> None:
            work = self._own.answer_to(received)
            if work is not None:
                group.create_task(work)

        await self._exchange.receive_all(inbox, answer)


def delegate(
    credentials: Credentials,
    topic: TopicAdvertisement,
    grantee: str,
    *rights: Right,
    until: datetime | None = None,
) -> bytes:
    """Return a Delegation, signed with *credentials*; see `Entity.delegate`."""
    ends = topic.expires if until is None else min(until, topic.expires)
    id_ = f"dlg-{uuid4()}"
    given = Delegation(id_, topic.topic_id, grantee, frozenset(rights), now(), ends)
    return sign(given, credentials)


def revocable(topic: TopicAdvertisement, delegation: bytes | str) -> tuple[str, datetime]:
    """Return the id of a delegation of a right to *topic*, and when it ends at the latest.

    Raises:
        Refused: It is none, or of another topic.
    """
    if isinstance(delegation, str):
        return delegation, topic.expires
    given = read_as(Delegation, delegation).value
    if given.topic_id != topic.topic_id:
        raise Mismatch("The delegation is for another topic.")
    return given.id, given.not_after


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
    """Run an entity, which receives answers and advertises its topics, while the body runs.

    Args:
        client: Sends its messages. A `GridClient` cannot: its events are not documents.
        inbox: Receives its messages; nothing else may read it.
        trust: The certificates that are trusted.
        name, institution: What it calls itself.
        answers: It receives queries to all creators, and answers those about its own topics.

    Raises:
        GatewayError: *client* cannot carry its messages, its inbox cannot be subscribed, or the
            subscription was lost: then the body is cancelled.
    """
    if isinstance(client, GridClient):
        raise GatewayError(
            "Grid SOAP Events cannot carry topic discovery: use another specification"
        )
    id_ = credentials.identifier(Role.ENTITY)
    made = Entity(client, credentials, trust, Creator(id_, name, institution))
    # The topic of an entity has no advertisement: its id is what the identifier says of the key.
    own = made.authorization(UUID(hex=id_.removeprefix(Role.ENTITY.value)), Right.SUBSCRIBE)
    there = subscribed(client, inbox.address, topic=str(topic_of(id_)), authorize=own)
    async with there, _subscribed_to_queries(client, inbox, answers):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(made._receive(inbox, group)),
                    group.create_task(made._own.repeat()),
                ]
                yield made
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as several:  # The first is the cause.
            raise several.exceptions[0] from several.exceptions[0].__cause__


@asynccontextmanager
async def _subscribed_to_queries(
    client: AnyClient, inbox: Inbox, answers: bool
) -> AsyncIterator[None]:
    if not answers:
        yield
        return
    async with subscribed(client, inbox.address, topic=str(TOPICS)):
        yield
