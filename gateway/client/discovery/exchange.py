"""Send the messages of one entity, and hand it their answers: `Exchange`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeAlias
from uuid import UUID, uuid4

from cryptography.x509 import Certificate

from filters import Refused, Topic
from gateway.client.consumer import ReceivedMessage
from gateway.client.events import AnyClient
from mediation.discovery import (
    Checked,
    Credentials,
    Head,
    NodeDiscoveryRequest,
    Role,
    TopicCreationRequest,
    TopicDiscoveryRequest,
    Verifier,
    check_answer,
    encrypt,
    receive,
)
from mediation.discovery.signing import sign

LIFE = timedelta(seconds=30)
"""The validity of a message."""
WAITING = 256
"""Answers to one call of `Exchange.ask` that may wait to be read."""
Request: TypeAlias = NodeDiscoveryRequest | TopicCreationRequest | TopicDiscoveryRequest


def now() -> datetime:
    return datetime.now(UTC)


class Inbox(Protocol):
    """The inbox of an entity: a `Consumer`, a `PulledMailbox`, or the like."""

    @property
    def address(self) -> str: ...

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]: ...


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request, the topic to publish it on, and the certificate to encrypt it for, if any."""

    request: Request
    topic: Topic
    certificate: Certificate | None = None


class Exchange:
    """Sends an entity's messages through *client*, and hands answers to those that wait."""

    def __init__(self, client: AnyClient, credentials: Credentials, verifier: Verifier) -> None:
        self.id = credentials.identifier(Role.ENTITY)
        self._client = client
        self._credentials = credentials
        self._verifier = verifier
        self._waiting: dict[UUID, asyncio.Queue[Checked]] = {}
        """Queues of answers, by the message id of the request."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for answers."""
        return not self._waiting

    def head(self, to: str | None = None) -> Head:
        """Return the head of a new message."""
        issued = now()
        return Head(uuid4(), self.id, issued, issued + LIFE, to)

    async def publish(self, octets: bytes, topic: Topic) -> None:
        """Publish a message."""
        await self._client.publish(octets, topic=str(topic))

    async def ask(
        self, several: Collection[OutgoingRequest], wait: float
    ) -> AsyncGenerator[Checked]:
        """Send requests, and yield their answers as they come, until *wait* seconds after the last
        was sent."""
        heads = {each.request.head.message_id: each.request.head for each in several}
        answers: asyncio.Queue[Checked] = asyncio.Queue(WAITING)
        self._waiting.update(dict.fromkeys(heads, answers))
        loop = asyncio.get_running_loop()
        try:
            for each in several:
                await self.publish(self._written(each), each.topic)
            until = loop.time() + wait
            while True:
                try:
                    async with asyncio.timeout_at(until):
                        answer = await answers.get()
                except TimeoutError:
                    return
                head = answer.message.head
                asked = heads.get(head.in_reply_to) if head.in_reply_to is not None else None
                with suppress(Refused):
                    if asked is not None:
                        check_answer(asked, head)
                        yield answer
        finally:
            for message_id in heads:
                del self._waiting[message_id]

    def _written(self, asked: OutgoingRequest) -> bytes:
        octets, to = sign(asked.request, self._credentials), asked.request.head.to
        if asked.certificate is not None and to is not None:
            octets = encrypt(octets, to, asked.certificate)
        return octets

    async def receive_all(self, inbox: Inbox, others: Callable[[Checked], None]) -> None:
        """Take the messages of *inbox*, for ever. *others* gets those that answer nothing."""
        own = {self.id: self._credentials}
        async for message in inbox:
            for notification in message.notifications:
                with suppress(Refused):
                    heard = receive(notification.payload, self._verifier, own, now=now())
                    self._take(heard, others)

    def _take(self, heard: Checked, others: Callable[[Checked], None]) -> None:
        answered = heard.message.head.in_reply_to
        if answered is None:
            others(heard)
            return
        answers = self._waiting.get(answered)
        if answers is not None and not answers.full():
            answers.put_nowait(heard)
