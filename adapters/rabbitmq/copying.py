"""Copies of published events for programs that receive them from RabbitMQ as WS-Messenger (Apache
Airavata 0.11) sends them.

    exchange              type      routing key
    PREFIX-fanout         fanout    empty
    PREFIX-topic          topic     each key of the event
    PREFIX-direct         direct    each key of the event

The copy is beside delivery: it waits in memory for a broker that is away, within bounds, and what
does not fit is dropped and counted.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pika
from lxml import etree

from adapters.broker.outages import Outages
from adapters.broker.reconnecting import Reconnector
from adapters.rabbitmq.address import read_setup
from adapters.rabbitmq.connection import Channel, Connection, Lost
from adapters.rabbitmq.messages import MAX_SHORT, XML
from adapters.rabbitmq.routing_keys import RoutingKeys
from filters import Refused
from mediation import Notification

WAITING_EVENTS, WAITING_BYTES = 10_000, 64 * 2**20
"""What waits for the broker at most."""
BATCH = 64
"""Events that are published before their confirmations are waited for."""
CONFIRMATION = 15.0
"""Seconds that the broker gets to confirm."""
SAID_EACH = 60.0
"""Seconds between lines of the log about what was dropped."""
SMALL = 16 * 2**10
"""Bytes of an event whose keys are found in the event loop."""
KINDS = ("fanout", "topic", "direct")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Copy:
    """An event that waits."""

    payload: bytes
    id: str
    topic: str


class AmqpCopies:
    """Copies events to the three exchanges.

    Attributes:
        copied: Events that the broker has confirmed.
        dropped: Events that did not fit among those that wait.
        refused: Events that the broker did not take, or whose keys are too long for AMQP.
    """

    def __init__(self, url: str, keys: RoutingKeys, *, prefix: str, durable: bool) -> None:
        self._parameters = read_setup(url, {}).parameters
        self._keys = keys
        self._exchanges = {kind: f"{prefix}-{kind}" for kind in KINDS}
        self._durable = durable
        self._waiting: deque[_Copy] = deque()
        self._bytes = 0
        self._come = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._said: float | None = None
        self._connection = Reconnector(
            Outages("amqp-copies"), "copying", self._connect, self._serve
        )
        self.copied = self.dropped = self.refused = 0

    @property
    def waiting(self) -> int:
        """Events that wait for the broker."""
        return len(self._waiting)

    def start(self) -> None:
        """Connect, and go on connecting; nobody waits for it."""
        logging.getLogger("pika").setLevel(logging.CRITICAL)  # We log what matters.
        self._connection.start()

    def offer(self, notification: Notification) -> None:
        """Copy *notification* some time, if it is of a kind that is copied. Never waits itself."""
        payload = notification.payload
        if not self._keys.takes(payload):
            return
        if len(self._waiting) >= WAITING_EVENTS or self._bytes + len(payload) > WAITING_BYTES:
            self.dropped += 1
            self._say("more wait for the broker than are kept")
            return
        topic = str(notification.topic) if notification.topic is not None else ""
        self._waiting.append(_Copy(payload, notification.id, topic))
        self._bytes += len(payload)
        self._empty.clear()
        self._come.set()

    async def close(self, seconds: float) -> None:
        """Copy what waits within *seconds*, and disconnect."""
        if self._connection.state.up:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._empty.wait()
        if self._waiting:
            self.dropped += len(self._waiting)
            logger.warning("amqp-copies.dropped", extra={"events": len(self._waiting)})
        await self._connection.close()

    async def _connect(self) -> Connection:
        return await Connection.open(self._parameters)

    async def _serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Copy through *connection* until it, or its channel, ends."""
        channel = await connection.channel()
        for kind, name in self._exchanges.items():
            await channel.ask(
                channel.raw.exchange_declare,
                exchange=name,
                exchange_type=kind,
                durable=self._durable,
            )
        confirms = _Confirms()
        await channel.confirm(confirms.answered, lambda _: None)
        ready()
        while True:
            if not self._waiting:
                self._come.clear()
                await _first_of(self._come.wait(), channel)
            batch = [self._waiting[n] for n in range(min(BATCH, len(self._waiting)))]
            marks = [await self._publish(channel, confirms, copy) for copy in batch]
            await _first_of(confirms.all_answered(), channel, CONFIRMATION)
            for mark in marks:  # Only now: what the connection loses is sent again on the next.
                self._bytes -= len(self._waiting.popleft().payload)
                if mark is None or confirms.was_refused(*mark):
                    self.refused += 1
                    self._say("the broker refused it, or a routing key is too long")
                else:
                    self.copied += 1
            confirms.forget()
            if not self._waiting:
                self._empty.set()

    async def _publish(
        self, channel: Channel, confirms: "_Confirms", copy: _Copy
    ) -> tuple[int, int] | None:
        """Publish one event everywhere; the first and the last tag of it. None: its keys do not
        fit."""
        try:
            if len(copy.payload) <= SMALL:
                keys = self._keys.keys_of(copy.payload)
            else:
                keys = await asyncio.to_thread(self._keys.keys_of, copy.payload)
        except (Refused, ValueError, etree.XMLSyntaxError):
            return None  # One that cannot be read must not stand in the way of others.
        if any(len(key.encode()) > MAX_SHORT for key in keys):
            return None
        properties = pika.BasicProperties(
            XML,
            headers={"topic": copy.topic} if copy.topic else None,
            message_id=copy.id if len(copy.id.encode()) <= MAX_SHORT else None,
        )
        first = confirms.published + 1
        for kind, exchange in self._exchanges.items():
            for key in ("",) if kind == "fanout" else keys:
                channel.publish(exchange, key, properties, copy.payload, mandatory=False)
                confirms.publish()
        return first, confirms.published

    def _say(self, why: str) -> None:
        now = time.monotonic()
        if self._said is None or now - self._said >= SAID_EACH:
            self._said = now
            logger.warning(
                "amqp-copies.lost",
                extra={"dropped": self.dropped, "refused": self.refused, "reason": why},
            )


class _Confirms:
    """The confirmations of what was published on a channel, by tag."""

    def __init__(self) -> None:
        self.published = 0
        self._unanswered: set[int] = set()
        self._refused: set[int] = set()
        self._changed = asyncio.Event()

    def publish(self) -> None:
        self.published += 1
        self._unanswered.add(self.published)

    def answered(self, tag: int, multiple: bool, refused: bool) -> None:
        tags = {one for one in self._unanswered if one <= tag or not tag} if multiple else {tag}
        self._unanswered -= tags
        if refused:
            self._refused |= tags
        self._changed.set()

    async def all_answered(self) -> None:
        while self._unanswered:
            self._changed.clear()
            await self._changed.wait()

    def was_refused(self, first: int, last: int) -> bool:
        return any(first <= tag <= last for tag in self._refused)

    def forget(self) -> None:
        self._refused.clear()


async def _first_of(
    waited: Coroutine[Any, Any, object], channel: Channel, seconds: float | None = None
) -> None:
    """Wait for *waited*, while the channel is open.

    Raises:
        Lost: The channel has closed, or the broker took longer than *seconds*.
    """
    task = asyncio.ensure_future(waited)
    try:
        await asyncio.wait(
            (task, channel.closed), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if channel.closed.done():
            raise channel.closed.result()
        if not task.done():
            raise Lost("the broker did not confirm in time")
    finally:
        task.cancel()
