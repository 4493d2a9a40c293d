"""Topics of one's own, at work: advertised again and again, and found where no node answers."""

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from filters.queries import seconds
from gateway.client.discovery.exchange import Exchange, now
from gateway.client.errors import GatewayError
from gateway.discovery.creator import OwnTopics
from gateway.discovery.outcomes import Dropped
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
"""Seconds for a query of another over topics of one's own."""
RETRY_EVERY = 5.0
"""Seconds after which what could not be said is said again."""


class Advertising:
    """The topics that an entity advertises."""

    def __init__(self, exchange: Exchange, credentials: Credentials, verifier: Verifier) -> None:
        self._exchange = exchange
        self._own = OwnTopics(
            credentials, verifier, sign=sign, new_uuid=uuid4, chance=random.random
        )
        self._changed = asyncio.Event()

    async def advertise(self, created: Created) -> None:
        """Make a topic known, now and, while `repeat` runs, again."""
        await self._exchange.say(self._own.advertise(created, now=now()), TOPICS)
        self._changed.set()

    async def withdraw(self, topic_id: UUID) -> None:
        """Take a topic back."""
        await self._exchange.say(self._own.withdraw(topic_id, now=now()), TOPICS)

    async def repeat(self) -> None:
        """Advertise what is due, for ever."""
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
                    await self._exchange.say(late[0], TOPICS)
                    del late[0]

    def answer_to(self, heard: Checked) -> Coroutine[Any, Any, None] | None:
        """What answers a query of another to all creators; None: silence does."""
        message = heard.message
        if (
            not isinstance(message, TopicDiscoveryRequest)
            or message.head.sender == self._exchange.id
        ):
            return None
        try:
            left = seconds(QUERY_TIME)
            after, answer = self._own.answer(heard.octets, seconds_left=left, now=now())
        except Dropped:
            return None
        return self._say_later(after, answer.octets, answer.receiver)

    async def _say_later(self, after: timedelta, octets: bytes, receiver: str) -> None:
        await asyncio.sleep(after.total_seconds())
        with suppress(GatewayError):  # Silence, as of who has nothing to say.
            await self._exchange.say(octets, topic_of(receiver))
