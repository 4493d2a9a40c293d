"""pika's callbacks as awaitables: a connection, its channels, and what ends them.

It runs in the event loop of the gateway; there is no thread.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pika
from pika import spec
from pika.exceptions import (
    AMQPError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from adapters import keeping
from adapters.rabbitmq.frames import Properties, write_acknowledgement, write_content
from adapters.rabbitmq.stream import Answered, Arrived, Stream
from adapters.rabbitmq.tags import Tags

OPENING = 15.0
ANSWER = 15.0
"""Seconds that the broker gets to open a connection, and to answer a request."""

ACCESS_REFUSED = 403
NOT_FOUND = 404
RESOURCE_LOCKED = 405
COMMAND_INVALID = 503


class Lost(keeping.Lost):
    """A connection or a channel could not be opened, or has ended.

    ``code`` is the reply code of AMQP, 0 where the broker gave none.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class Channel:
    """An open channel. ``raw`` is pika's, for what needs an answer, or none and is rare."""

    def __init__(self, stream: Stream, raw: Any) -> None:
        self.raw = raw
        self.number: int = raw.channel_number
        self.closed: asyncio.Future[Lost] = asyncio.get_running_loop().create_future()
        self.answered: Answered | None = None
        self._stream = stream
        self._consumers: dict[bytes, Arrived] = {}
        self._asked: set[asyncio.Future[Any]] = set()
        self._tags = Tags()
        raw.add_on_close_callback(lambda _channel, reason: self._ended(_lost(reason)))

    @property
    def is_open(self) -> bool:
        return bool(self.raw.is_open)

    async def ask(self, method: Callable[..., Any], **arguments: Any) -> Any:
        """Call a method of ``raw`` and wait for the broker's answer.

        Raises:
            Lost: The broker refused, which closes the channel, or did not answer in time.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked.add(answer)
        try:
            method(callback=lambda frame: _settle(answer, frame), **arguments)
            async with asyncio.timeout(ANSWER):
                return await answer
        except TimeoutError:
            raise Lost(f"the broker did not answer within {ANSWER:.0f} s") from None
        except AMQPError as exc:
            raise _lost(exc) from exc
        finally:
            self._asked.discard(answer)

    async def confirm(self, answered: Answered) -> None:
        """Have the broker confirm what is published, from the first message on.

        Raises:
            Lost: As `ask`.
        """

        def of_pika(frame: Any) -> None:
            method = frame.method
            refused = isinstance(method, spec.Basic.Nack)
            answered(method.delivery_tag, bool(method.multiple), refused)

        await self.ask(self.raw.confirm_delivery, ack_nack_callback=of_pika)
        self.answered = answered
        self._stream.short_ways[self.number] = self

    def publish(self, method: bytes, properties: bytes, body: bytes) -> None:
        """Publish a message: a method frame and properties, as `adapters.rabbitmq.frames` writes
        them.

        Raises:
            Lost: The channel is closed.
        """
        if not self.raw.is_open:
            raise Lost("the channel is closed")
        largest = self._stream.largest_body
        self._stream.send((method, *write_content(self.number, properties, body, largest)))

    async def consume(self, queue: str, tag: str, arrived: Arrived, *, exclusive: bool) -> None:
        """Have *arrived* called with each message of *queue*.

        Raises:
            Lost: As `ask`.
        """
        consumer = tag.encode()

        def of_pika(_channel: Any, method: Any, properties: Any, body: bytes) -> None:
            origin = method.exchange, method.routing_key
            found = Properties.of(properties)
            self.deliver(consumer, method.delivery_tag, method.redelivered, *origin, found, body)

        self._consumers[consumer] = arrived
        self._stream.short_ways[self.number] = self
        await self.ask(
            self.raw.basic_consume,
            queue=queue,
            consumer_tag=tag,
            on_message_callback=of_pika,
            exclusive=exclusive,
        )

    def has_consumer(self, consumer: bytes) -> bool:
        return consumer in self._consumers

    def deliver(
        self,
        consumer: bytes,
        tag: int,
        redelivered: bool,
        exchange: str,
        key: str,
        properties: Properties,
        body: bytes,
    ) -> None:
        self._tags.deliver(tag)
        self._consumers[consumer](tag, redelivered, exchange, key, properties, body)

    def acknowledge(self, tag: int) -> None:
        """Acknowledge what was delivered with *tag*, in a moment: with others, in one frame.

        Raises:
            Lost: The channel is closed.
        """
        if not self.raw.is_open:
            raise Lost("the channel is closed")
        if self._tags.settle(tag):
            self._stream.flush_later(self)
        if self._tags.are_many:
            self._stream.flush_soon()

    def flush(self) -> None:
        """Acknowledge now."""
        upto, apart = self._tags.take()
        if not self.raw.is_open:
            return
        pieces = [write_acknowledgement(self.number, tag, multiple=False) for tag in apart]
        if upto is not None:
            pieces.append(write_acknowledgement(self.number, upto, multiple=True))
        self._stream.send(pieces)

    async def close(self) -> None:
        with suppress(AMQPError):
            self.raw.close()
            async with asyncio.timeout(ANSWER):
                await asyncio.wait([self.closed])

    def _ended(self, lost: Lost) -> None:
        self._stream.short_ways.pop(self.number, None)
        _settle(self.closed, lost)
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(Lost(str(lost), lost.code))


class Connection:
    """An open connection; ``closed`` is done with the reason when it has ended."""

    def __init__(self, raw: Stream, closed: asyncio.Future[Lost]) -> None:
        self.raw = raw
        self.closed = closed

    @classmethod
    async def open(cls, parameters: pika.ConnectionParameters) -> "Connection":
        """Connect.

        Raises:
            Lost: It failed; the text says why, without a password.
        """
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        closed: asyncio.Future[Lost] = loop.create_future()
        raw = Stream(
            parameters,
            on_open_callback=lambda _connection: _settle(opened, None),
            on_open_error_callback=lambda _connection, reason: (
                None if opened.done() else opened.set_exception(_lost(reason))
            ),
            on_close_callback=lambda _connection, reason: _settle(closed, _lost(reason)),
        )
        try:
            async with asyncio.timeout(OPENING):
                await opened
        except BaseException as exc:
            with suppress(AMQPError):
                raw.close()
            if isinstance(exc, TimeoutError):
                raise Lost(f"no answer within {OPENING:.0f} s") from None
            raise
        return cls(raw, closed)

    async def channel(self) -> Channel:
        """Open a channel.

        Raises:
            Lost: The connection has ended, or does not answer.
        """
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            raw = self.raw.channel(on_open_callback=lambda channel: _settle(opened, channel))
        except AMQPError as exc:
            raise _lost(exc) from exc
        channel = Channel(self.raw, raw)
        await asyncio.wait(
            [opened, channel.closed], timeout=ANSWER, return_when=asyncio.FIRST_COMPLETED
        )
        if channel.closed.done():
            raise channel.closed.result()
        if not opened.done():
            raise Lost(f"the broker opened no channel within {ANSWER:.0f} s")
        return channel

    async def close(self, seconds: float) -> None:
        """Close politely; after *seconds*, at once."""
        self.raw.flush()
        with suppress(AMQPError):
            self.raw.close()
        await asyncio.wait([self.closed], timeout=seconds)
        if not self.closed.done():
            # pika would wait for the answer of a peer that is gone until heartbeats fail.
            self.raw._terminate_stream(AMQPError("the broker did not close the connection"))
            await asyncio.wait([self.closed], timeout=seconds)


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _lost(reason: BaseException) -> Lost:
    """What pika says, in one line."""
    while (inner := _inner(reason)) is not None:
        reason = inner
    if isinstance(reason, Lost):
        return reason
    if isinstance(reason, ChannelClosedByBroker | ConnectionClosedByBroker):
        return Lost(reason.reply_text, reason.reply_code)
    if isinstance(reason, ProbableAuthenticationError):
        return Lost("the broker refused the user's name or password")
    if isinstance(reason, ProbableAccessDeniedError):
        return Lost("the broker refused the user access to the virtual host")
    if isinstance(reason, ssl.SSLError):
        return Lost(f"TLS: {reason}")
    if isinstance(reason, OSError) and reason.strerror:
        return Lost(reason.strerror)
    return Lost(str(reason) or type(reason).__name__)


def _inner(reason: BaseException) -> BaseException | None:
    """The reason of *reason*: pika wraps them in several ways."""
    for wrapped in (
        getattr(reason, "exceptions", None),
        getattr(reason, "exception", None),
        reason.args if isinstance(reason, AMQPError) else None,
    ):
        if isinstance(wrapped, list | tuple) and wrapped:
            wrapped = wrapped[-1]
        if isinstance(wrapped, BaseException):
            return wrapped
    return None
