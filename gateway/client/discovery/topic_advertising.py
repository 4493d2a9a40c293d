"""Re-advertise the program's own topics, and answer queries about them when no node does."""

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from filters.queries import seconds
from gateway.client.discovery.exchange import Exchange, now
from gateway.client.errors import GatewayError
from gateway.discovery.node_messages import MessageDropped
from gateway.discovery.own_topics import OwnTopics
from mediation.discovery import (
    TOPICS,
    Checked,
    Created,
    Credentials,
    TopicDiscoveryRequest,
    Verifier,
    topic_of,
)
from mediation.discovery.signing import sign

QUERY_TIME = 0.1
"""Seconds for a query of another entity over own topics."""
RETRY_EVERY = 5.0
"""Seconds after which a message that could not be sent is sent again."""


class TopicAdvertiser:
    """Advertises the topics of an entity."""

    def __init__(self, exchange: Exchange, credentials: Credentials, verifier: Verifier) -> None:
        self._exchange = exchange
        self._own = OwnTopics(
            credentials, verifier, sign=sign, new_uuid=uuid4, chance=random.random
        )
        self._changed = asyncio.Event()

    async def advertise(self, created: Created) -> None:
        """Advertise a topic now and, while `repeat` runs, again."""
        await self._exchange.publish(self._own.advertise(created, now=now()), TOPICS)
        self._changed.set()

    async def withdraw(self, topic_id: UUID) -> None:
        """Withdraw a topic."""
        await self._exchange.publish(self._own.withdraw(topic_id, now=now()), TOPICS)

    async def revoke(self, topic_id: UUID, delegation: str, until: datetime) -> bytes:
        """Take back a delegation. Returns the message, which is published again with its topic."""
        octets = self._own.revoke(topic_id, delegation, until=until, now=now())
        await self.publish_revocation(octets)
        return octets

    async def publish_revocation(self, octets: bytes) -> None:
        """Publish a revocation now, and again whenever its topic is advertised again."""
        self._own.repeat_revocation(octets)
        await self._exchange.publish(octets, TOPICS)

    async def repeat(self) -> None:
        """Advertise topics when they are due, for ever."""
        late: list[bytes] = []
        while True:
            self._changed.clear()
            pause: float | None = RETRY_EVERY
            if not late:
                due = self._own.next()
                pause = None if due is None else max(0.0, (due - now()).total_seconds())
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            late += self._own.due(now=now())
            with suppress(GatewayError):
                while late:
                    await self._exchange.publish(late[0], TOPICS)
                    del late[0]

    def answer_to(self, received: Checked) -> Coroutine[Any, Any, None] | None:
        """Return a coroutine that answers a query to all creators; None for silence."""
        message = received.message
        if (
            not isinstance(message, TopicDiscoveryRequest)
            or message.head.sender == self._exchange.id
        ):
            return None
        try:
            left = seconds(QUERY_TIME)
            after, answer = self._own.answer(received.octets, seconds_left=left, now=now())
        except MessageDropped:
            return None
        return self._publish_later(after, answer.octets, answer.receiver)

    async def _publish_later(self, after: timedelta, octets: bytes, receiver: str) -> None:
        await asyncio.sleep(after.total_seconds())
        with suppress(GatewayError):  # Silence, as if nothing had been found.
            await self._exchange.publish(octets, topic_of(receiver))
