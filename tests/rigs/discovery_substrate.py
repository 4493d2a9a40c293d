"""A messaging system in memory, with real nodes and real entities on it: what is said comes at once,
or is held back, or lost, as a test says."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, cast
from uuid import uuid4

from filters.queries import seconds
from gateway.client.consumer import ReceivedMessage
from gateway.client.discovery import Entity, entity
from gateway.client.events import AnyClient
from gateway.client.messaging import Subscription
from gateway.discovery.limits import NodeLimits
from gateway.discovery.node import Node
from gateway.discovery.node_messages import (
    MessageDropped,
    NewAdvertisement,
    NodeRequest,
    SearchResult,
    Withdrawal,
)
from mediation.client import Received
from mediation.discovery import Anchors, Credentials, Trust, Verifier, topic_of
from mediation.discovery.signing import sign
from mediation.model.messages import EndpointReference
from mediation.model.versions import Wsa
from tests.rigs.discovery_keys import Authority, parties, root, rsa_key


@dataclass
class NodeThere:
    """A node, and what it keeps."""

    node: Node
    kept: dict[str, bytes] = field(default_factory=dict)
    held: list[tuple[str, bytes]] | None = None
    """Topics and answers that are held back; None: none is."""
    seconds: float = 5.0
    """The time for each query."""

    @property
    def id(self) -> str:
        return self.node.id

    def answers(self, octets: bytes, topic: str) -> Iterator[tuple[str, bytes]]:
        """What the node publishes when it hears something."""
        ways = {str(known): way for known, way in self.node.topics.items()}
        if topic not in ways:
            return
        now = datetime.now(UTC)
        with suppress(MessageDropped):
            taken = self.node.read(octets, ways[topic], "urn:somebody", now=now)
            if isinstance(taken, NewAdvertisement):
                self.node.add(taken.row)
                self.kept[taken.row.topic_id] = taken.row.octets or b""
            elif isinstance(taken, Withdrawal):
                self.node.remove(taken.topic_id)
                self.kept.pop(taken.topic_id, None)
            elif isinstance(taken, NodeRequest):
                answer = self.node.answer(taken, seconds_left=seconds(self.seconds), now=now)
                if isinstance(answer, SearchResult):
                    found = [self.kept[id_] for id_ in answer.topic_ids]
                    answer = self.node.answer_found(answer, found, now=now)
                yield str(topic_of(answer.receiver)), answer.octets


class Substrate:
    """What is published reaches nodes and inboxes before `publish` returns.

    Attributes:
        said: The topics of all messages, in order.
        lose: Given the number of a message, from 1, whether it is lost.
    """

    def __init__(self) -> None:
        self.nodes: list[NodeThere] = []
        self.said: list[str] = []
        self.lose: Callable[[int], bool] = lambda _: False
        self._inboxes: dict[str, list[Inbox]] = {}

    def publish(self, octets: bytes, topic: str) -> None:
        self.said.append(topic)
        if self.lose(len(self.said)):
            return
        for inbox in self._inboxes.get(topic, ()):
            inbox.put(octets)
        for there in self.nodes:
            for answer in there.answers(octets, topic):
                if there.held is None:
                    self.publish(answer[1], answer[0])
                else:
                    there.held.append(answer)

    def release(self, there: NodeThere) -> None:
        """Publish what was held back, and what is answered from now on."""
        held, there.held = there.held or [], None
        for topic, octets in held:
            self.publish(octets, topic)

    def node(self, name: str = "", authority: Authority | None = None) -> NodeThere:
        """A node, that of the parties or another."""
        credentials = parties().node
        if name:
            by = authority or parties().node_authority
            credentials = by.credentials(name, rsa_key(f"node {name}"))
        limits = NodeLimits(queries=1000.0)
        node = Node(credentials, Verifier(trust()), sign=sign, new_uuid=uuid4, limits=limits)
        self.nodes.append(NodeThere(node))
        return self.nodes[-1]

    def subscribe(self, inbox: "Inbox", topic: str) -> None:
        self._inboxes.setdefault(topic, []).append(inbox)

    def unsubscribe(self, inbox: "Inbox", topic: str) -> None:
        self._inboxes[topic].remove(inbox)


class Inbox:
    """Where an entity hears."""

    address = "urn:inbox"

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()

    def put(self, octets: bytes) -> None:
        self._queue.put_nowait(octets)

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        while True:
            octets = await self._queue.get()
            yield ReceivedMessage.of((Received(None, octets, None, None),), octets)


class _Client:
    """What an entity speaks through."""

    def __init__(self, substrate: Substrate, inbox: Inbox) -> None:
        self._substrate = substrate
        self._inbox = inbox

    async def publish(self, payload: bytes, *, topic: str) -> str:
        self._substrate.publish(payload, topic)
        return ""

    async def subscribe(self, _consumer: str, *, topic: str, **_: Any) -> Subscription:
        self._substrate.subscribe(self._inbox, topic)
        return Subscription(EndpointReference(topic, Wsa.V2005_08), None)

    async def renew(self, subscription: Subscription, _lease: timedelta) -> Subscription:
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        self._substrate.unsubscribe(self._inbox, subscription.manager.address)


@cache
def other_authority() -> Authority:
    """Another authority for nodes than that of the parties."""
    return root("Authority of the east", rsa_key("east"))


def trust() -> Trust:
    """That of the parties, and nodes of `other_authority`."""
    known = parties().trust
    nodes = (*known.nodes.authorities, other_authority().certificate)
    return Trust(Anchors(nodes), known.entities)


@asynccontextmanager
async def on(substrate: Substrate, credentials: Credentials, **more: Any) -> AsyncIterator[Entity]:
    """An entity there."""
    inbox = Inbox()
    client = cast(AnyClient, _Client(substrate, inbox))
    async with entity(client, inbox, credentials, trust(), **more) as made:
        yield made
