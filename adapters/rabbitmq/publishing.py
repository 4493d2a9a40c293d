"""Publishing: many messages under way, each publisher answered when its own are confirmed.

It has a connection of its own, for a broker in an alarm stops reading from connections that
publish, and what is settled must still come through.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pika
from pika.exceptions import AMQPError

from adapters.protocol import AdapterUnavailable
from adapters.rabbitmq.connection import Channel, Connection
from adapters.rabbitmq.topology import declare_exchanges

CONFIRMATION = 15.0
"""Seconds that the broker gets to confirm."""
BLOCKED = 5.0
"""Seconds after which a publisher may ask again whether the broker's alarm is over."""

WAITING_MESSAGES = 2000
WAITING_OCTETS = 64 * 2**20
"""What may wait for a confirmation. Publications beyond are refused."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``wanted``: the gateway itself waits for it, so it must reach a queue."""

    exchange: str
    key: str
    body: bytes
    properties: pika.BasicProperties
    wanted: bool


@dataclass(slots=True)
class _Publication:
    """What one publisher waits for."""

    remaining: int
    done: asyncio.Future[None]
    ids: frozenset[str]
    failure: str | None = None

    def refuse(self, text: str, retry_after: float) -> None:
        if not self.done.done():
            self.done.set_exception(AdapterUnavailable(text, retry_after=retry_after))
            self.done.exception()  # Its publisher may have given up.


@dataclass(slots=True)
class Publishing:
    """Publishes through whatever connection there is.

    ``unroutable`` is called when the broker had no queue for a message that was wanted: what
    stands in the broker is not what should.
    """

    exchange: str
    others: Collection[str]
    unroutable: Callable[[], None]
    retry_after: Callable[[], float] = lambda: 1.0
    blocked: bool = False
    """The broker has an alarm: it takes no messages."""
    _channel: Channel | None = None
    _tag: int = 0
    _waiting: dict[int, tuple[_Publication, int]] = field(default_factory=dict)
    _octets: int = 0

    async def serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Publish through *connection* until it, or its channel, ends."""
        self.blocked = False
        connection.raw.add_on_connection_blocked_callback(self._on_blocked)
        connection.raw.add_on_connection_unblocked_callback(self._on_unblocked)
        await declare_exchanges(connection, self.exchange, self.others)
        channel = await connection.channel()
        channel.raw.add_on_return_callback(self._on_return)
        await channel.ask(channel.raw.confirm_delivery, ack_nack_callback=self._on_answer)
        self._tag = 0
        self._channel = channel
        ready()
        try:
            await asyncio.wait([channel.closed])
        finally:
            self._channel = None
            self._fail("the connection to the broker was lost")
        raise channel.closed.result()

    async def publish(self, messages: Sequence[Message]) -> None:
        """Return when the broker has confirmed all of *messages*.

        Raises:
            AdapterUnavailable: It did not confirm; it may have none, some or all.
        """
        channel = self._channel
        if channel is None:
            raise AdapterUnavailable(
                "there is no connection to the broker", retry_after=self.retry_after()
            )
        if self.blocked:
            raise AdapterUnavailable("the broker takes no messages now", retry_after=BLOCKED)
        octets = sum(len(message.body) for message in messages)
        if self._waiting and (
            len(self._waiting) + len(messages) > WAITING_MESSAGES
            or self._octets + octets > WAITING_OCTETS
        ):
            raise AdapterUnavailable("too many messages wait for the broker")
        publication = _Publication(
            len(messages),
            asyncio.get_running_loop().create_future(),
            frozenset(_id(message.properties) for message in messages),
        )
        try:
            for message in messages:
                channel.raw.basic_publish(
                    message.exchange,
                    message.key,
                    message.body,
                    message.properties,
                    mandatory=message.wanted,
                )
                self._tag += 1
                self._waiting[self._tag] = publication, len(message.body)
                self._octets += len(message.body)
        except AMQPError as exc:
            raise AdapterUnavailable("the connection to the broker was lost") from exc
        try:
            async with asyncio.timeout(CONFIRMATION):
                await publication.done
        except TimeoutError:
            raise AdapterUnavailable("the broker did not confirm in time") from None

    def _on_answer(self, frame: Any) -> None:
        """basic.ack or basic.nack: of one message, or of all up to it."""
        tag = frame.method.delivery_tag
        tags = [tag]
        if frame.method.multiple:
            tags = [each for each in self._waiting if not tag or each <= tag]
        refused = isinstance(frame.method, pika.spec.Basic.Nack)
        for each in tags:
            publication, octets = self._waiting.pop(each, (None, 0))
            if publication is None:
                continue
            self._octets -= octets
            publication.remaining -= 1
            if refused:
                publication.failure = "the broker refused a message"
            if publication.remaining:
                continue
            if publication.failure is not None:
                publication.refuse(publication.failure, 1.0)
            elif not publication.done.done():
                publication.done.set_result(None)

    def _on_return(self, _channel: Any, _method: Any, properties: Any, _body: bytes) -> None:
        """A message that is wanted reached no queue; its basic.ack follows."""
        id = _id(properties)
        for publication, _octets in self._waiting.values():
            if id in publication.ids:
                publication.failure = "the broker has no queue for a message"
        self.unroutable()

    def _on_blocked(self, _connection: Any, _frame: Any) -> None:
        self.blocked = True
        for publication, _octets in self._waiting.values():
            publication.refuse("the broker takes no messages now", BLOCKED)

    def _on_unblocked(self, _connection: Any, _frame: Any) -> None:
        self.blocked = False

    def _fail(self, text: str) -> None:
        for publication, _octets in self._waiting.values():
            publication.refuse(text, self.retry_after())
        self._waiting.clear()
        self._octets = 0


def _id(properties: pika.BasicProperties) -> str:
    return str((properties.headers or {}).get("cloudEvents_id", ""))
