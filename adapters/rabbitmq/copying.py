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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pika
from lxml import etree

from adapters.broker.outages import Outages
from adapters.broker.reconnecting import Reconnector
from adapters.protocol import AdapterUnavailable, PublicationRefused
from adapters.rabbitmq.address import read_setup
from adapters.rabbitmq.connection import Connection, Lost
from adapters.rabbitmq.messages import MAX_SHORT, XML
from adapters.rabbitmq.publishing import Message, Publishing
from adapters.rabbitmq.routing_keys import RoutingKeys
from filters import Refused
from mediation.model.messages import Notification

WAITING_EVENTS, WAITING_BYTES = 10_000, 64 * 2**20
"""What waits for the broker at most."""
BATCH = 64
"""Events that are published before their confirmations are waited for."""
AGAIN = 0.5
"""Seconds until what the broker did not take is published again."""
SAID_EACH = 60.0
"""Seconds between lines of the log about what was dropped."""
SMALL = 16 * 2**10
"""Bytes of an event whose keys are found in the event loop."""
KINDS = ("fanout", "topic", "direct")

logger = logging.getLogger(__name__)


class AmqpCopies:
    """Copies events to the three exchanges.

    Attributes:
        copied: Events that the broker has confirmed.
        dropped: Events that did not fit among those that wait.
        refused: Events that the broker did not take, or whose keys are too long for AMQP.
        on_refused: Told of each of these, and why.
    """

    def __init__(self, url: str, keys: RoutingKeys, *, prefix: str, durable: bool) -> None:
        self._parameters = read_setup(url, {}).parameters
        self._keys = keys
        self._exchanges = {kind: f"{prefix}-{kind}" for kind in KINDS}
        self._durable = durable
        self._waiting: deque[Notification] = deque()
        self._bytes = 0
        self._come = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._said: float | None = None
        self._publishing = Publishing(
            "amqp-copies",
            self._declare,
            unroutable=lambda: None,
            retry_after=lambda: self._connection.retry_after,
        )
        self._connection = Reconnector(
            Outages("amqp-copies"), "copying", self._connect, self._publishing.serve
        )
        self._copying: asyncio.Task[None] | None = None
        self.copied = self.dropped = self.refused = 0
        self.on_refused: Callable[[Notification, str], None] = lambda *_: None

    @property
    def waiting(self) -> int:
        """Events that wait for the broker."""
        return len(self._waiting)

    def start(self) -> None:
        """Connect, and go on connecting; nobody waits for it."""
        logging.getLogger("pika").setLevel(logging.CRITICAL)  # We log what matters.
        self._connection.start()
        self._copying = asyncio.get_running_loop().create_task(self._copy())

    def offer(self, notification: Notification) -> None:
        """Copy *notification* some time, if it is of a kind that is copied. Never waits itself."""
        payload = notification.payload
        if not self._keys.takes(payload):
            return
        if len(self._waiting) >= WAITING_EVENTS or self._bytes + len(payload) > WAITING_BYTES:
            self.dropped += 1
            self._say("more wait for the broker than are kept")
            return
        self._waiting.append(replace(notification, headers=(), attachments=()))
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
        if self._copying is not None:
            self._copying.cancel()
            await asyncio.wait([self._copying])
        self._publishing.publications.give_up()
        await self._connection.close()

    async def _connect(self) -> Connection:
        try:
            return await Connection.open(self._parameters)
        except Lost:
            self._publishing.publications.give_up()
            raise

    async def _declare(self, connection: Connection) -> None:
        channel = await connection.channel()
        for kind, name in self._exchanges.items():
            await channel.ask(
                channel.raw.exchange_declare,
                exchange=name,
                exchange_type=kind,
                durable=self._durable,
            )
        await channel.close()

    async def _copy(self) -> None:
        """Copy what waits, for ever."""
        while True:
            if not self._waiting:
                self._empty.set()
                self._come.clear()
                await self._come.wait()
            batch = [self._waiting[n] for n in range(min(BATCH, len(self._waiting)))]
            messages = [await self._messages(each) for each in batch]
            tasks = [
                asyncio.ensure_future(self._publish(*each))
                for each in zip(batch, messages, strict=True)
            ]
            try:
                await asyncio.wait(tasks)
            finally:
                for task in tasks:
                    task.cancel()
            left = [each for each, task in zip(batch, tasks, strict=True) if not task.result()]
            for each in batch:
                self._waiting.popleft()
                self._bytes -= len(each.payload)
            for each in reversed(left):  # The connection lost it: it is sent again on the next.
                self._waiting.appendleft(each)
                self._bytes += len(each.payload)
            if left:
                await asyncio.sleep(AGAIN)

    async def _publish(self, event: Notification, messages: Sequence[Message]) -> bool:
        """Publish *event* everywhere; False where the broker does not take it now. One without
        messages has keys that do not fit."""
        try:
            if messages:
                await self._publishing.publish(messages)
        except PublicationRefused as refused:
            self._refuse(event, refused.text)
        except AdapterUnavailable:
            return False
        else:
            if messages:
                self.copied += 1
            else:
                self._refuse(event, "its routing keys cannot be found, or are too long")
        return True

    async def _messages(self, event: Notification) -> list[Message]:
        """Make what is published of *event*; nothing where its keys do not fit."""
        try:
            if len(event.payload) <= SMALL:
                keys = self._keys.keys_of(event.payload)
            else:
                keys = await asyncio.to_thread(self._keys.keys_of, event.payload)
        except (Refused, ValueError, etree.XMLSyntaxError):
            return []  # One that cannot be read must not stand in the way of others.
        if any(len(key.encode()) > MAX_SHORT for key in keys):
            return []
        properties = pika.BasicProperties(
            XML,
            headers={"topic": str(event.topic)} if event.topic is not None else None,
            message_id=event.id if len(event.id.encode()) <= MAX_SHORT else None,
        )
        return [
            Message(event, exchange, key, properties, event.payload, wanted=False)
            for kind, exchange in self._exchanges.items()
            for key in (("",) if kind == "fanout" else keys)
        ]

    def _refuse(self, event: Notification, why: str) -> None:
        self.refused += 1
        self._say(why)
        self.on_refused(event, why)

    def _say(self, why: str) -> None:
        now = time.monotonic()
        if self._said is None or now - self._said >= SAID_EACH:
            self._said = now
            logger.warning(
                "amqp-copies.lost",
                extra={"dropped": self.dropped, "refused": self.refused, "reason": why},
            )
