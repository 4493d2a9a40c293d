"""pika's callbacks as awaitables: a connection, its channels, and what ends them.

It runs in the event loop of the gateway, without a thread. All of AMQP is pika's, through its
public interface. Only the time of acknowledgements is ours: they wait a moment for others, since
one frame for sixteen messages costs both sides less than sixteen frames.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pika
from pika import spec
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exceptions import (
    AMQPError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ConnectionOpenAborted,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    StreamLostError,
)

from adapters.broker import reconnecting
from adapters.broker.prefetch import HELD
from adapters.rabbitmq.tags import Tags

Answered = Callable[[int, bool, bool], None]
"""Takes the tag that the broker answered for, whether all up to it, and whether it refused."""
Returned = Callable[[pika.BasicProperties], None]
"""Takes the properties of a message that reached no queue."""
Arrived = Callable[[spec.Basic.Deliver, pika.BasicProperties, bytes], None]
"""Takes the method ``basic.deliver``, the properties and the body of a message."""

OPENING = 15.0
ANSWER = 15.0
"""Seconds that the broker gets to open a connection, and to answer a request."""

ACCESS_REFUSED = 403
NOT_FOUND = 404
RESOURCE_LOCKED = 405
PRECONDITION_FAILED = 406
COMMAND_INVALID = 503


class Lost(reconnecting.Lost):
    """A connection or a channel could not be opened, or has ended.

    ``code`` is the reply code of AMQP, 0 where the broker gave none. ``offended``: what the broker
    sent could not be read.
    """

    def __init__(
        self, text: str, code: int = 0, *, by_peer: bool = False, offended: bool = False
    ) -> None:
        super().__init__(text)
        self.code = code
        self.by_peer = by_peer
        self.offended = offended


class Channel:
    """An open channel. ``raw`` is pika's, for requests that are rare.

    Nothing is called back any more once ``closed`` is done.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.closed: asyncio.Future[Lost] = asyncio.get_running_loop().create_future()
        self._asked: set[asyncio.Future[Any]] = set()
        self._tags = Tags()
        self._flush: asyncio.Handle | None = None
        """The call that acknowledges settled messages, at the end of this turn or within `HELD`."""
        self._flushes_soon = False
        raw.add_on_close_callback(lambda _channel, reason: self.end(_lost(reason)))

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

    async def confirm(self, answered: Answered, returned: Returned) -> None:
        """Have the broker confirm what is published, from the first message on.

        Args:
            returned: Called with each mandatory message that reached no queue, before *answered*.

        Raises:
            Lost: As `ask`.
        """

        def on_answer(frame: Any) -> None:
            if not self.closed.done():
                method = frame.method
                refused = isinstance(method, spec.Basic.Nack)
                answered(method.delivery_tag, method.multiple, refused)

        def on_return(_channel: Any, _method: Any, properties: Any, _body: bytes) -> None:
            if not self.closed.done():
                returned(properties)

        self.raw.add_on_return_callback(on_return)
        await self.ask(self.raw.confirm_delivery, ack_nack_callback=on_answer)

    def publish(
        self,
        exchange: str,
        key: str,
        properties: pika.BasicProperties,
        body: bytes,
        *,
        mandatory: bool,
    ) -> None:
        """Publish a message.

        Raises:
            Lost: The channel is closed.
        """
        try:
            self.raw.basic_publish(exchange, key, body, properties, mandatory)
        except AMQPError as exc:
            raise _lost(exc) from exc

    async def consume(self, queue: str, arrived: Arrived, *, exclusive: bool) -> None:
        """Have *arrived* called with each message of *queue*.

        Raises:
            Lost: As `ask`.
        """
        deliver = self._tags.deliver
        closed = self.closed.done

        def on_message(_channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if not closed():
                deliver(method.delivery_tag)
                arrived(method, properties, body)

        await self.ask(
            self.raw.basic_consume,
            queue=queue,
            consumer_tag=queue,
            on_message_callback=on_message,
            exclusive=exclusive,
        )

    def acknowledge(self, tag: int) -> None:
        """Acknowledge the message with *tag* within `HELD` seconds, together with others in one
        frame.

        Raises:
            Lost: The channel is closed.
        """
        if not self.raw.is_open:
            raise Lost("the channel is closed")
        self._tags.settle(tag)
        if self._tags.are_many:
            self._flush_soon()
        elif self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(HELD, self.flush)

    def flush(self) -> None:
        """Acknowledge now."""
        if self._flush is not None:
            self._flush.cancel()
        self._flush, self._flushes_soon = None, False
        upto, apart = self._tags.take()
        if not self.raw.is_open:
            return
        for tag in apart:
            self.raw.basic_ack(tag)
        if upto is not None:
            self.raw.basic_ack(upto, multiple=True)

    async def close(self) -> None:
        """Close it; what was settled is acknowledged before."""
        self.hang_up()
        async with asyncio.timeout(ANSWER):
            await asyncio.wait([self.closed])

    def hang_up(self) -> None:
        """Close it without waiting for the broker."""
        with suppress(AMQPError):
            self.flush()
            self.raw.close()

    def end(self, lost: Lost) -> None:
        """End the channel: it is of no use any more."""
        if self._flush is not None:
            self._flush.cancel()
        _settle(self.closed, lost)
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(Lost(str(lost), lost.code, by_peer=lost.by_peer))

    def _flush_soon(self) -> None:
        """Flush at the end of this turn of the event loop."""
        if self._flushes_soon:
            return
        if self._flush is not None:
            self._flush.cancel()
        self._flushes_soon = True
        self._flush = asyncio.get_running_loop().call_soon(self.flush)


class Connection:
    """An open connection; ``closed`` is done with the reason when it has ended."""

    def __init__(self, raw: AsyncioConnection, closed: asyncio.Future[Lost]) -> None:
        self.raw = raw
        self.closed = closed
        self._channels: list[Channel] = []

    @classmethod
    async def open(cls, parameters: pika.ConnectionParameters) -> "Connection":
        """Connect.

        Raises:
            Lost: It failed; the text says why, without a password.
        """
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        closed: asyncio.Future[Lost] = loop.create_future()
        raw = AsyncioConnection(
            parameters,
            on_open_callback=lambda _connection: _settle(opened, None),
            on_open_error_callback=lambda _connection, reason: (
                None if opened.done() else opened.set_exception(_lost(reason))
            ),
            on_close_callback=lambda _connection, reason: _settle(closed, _lost(reason)),
            custom_ioloop=loop,
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

    @property
    def is_open(self) -> bool:
        """True if channels can be opened."""
        return bool(self.raw.is_open)

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
        channel = Channel(raw)
        self._channels = [each for each in self._channels if not each.closed.done()]
        self._channels.append(channel)
        await asyncio.wait(
            [opened, channel.closed], timeout=ANSWER, return_when=asyncio.FIRST_COMPLETED
        )
        if channel.closed.done():
            raise channel.closed.result().anew()
        if not opened.done():
            raise Lost(f"the broker opened no channel within {ANSWER:.0f} s")
        return channel

    def watch_alarms(self, changed: Callable[[bool], None]) -> None:
        """Have *changed* called when the broker has an alarm (True), and when that is over."""

        def on_change(blocked: bool) -> None:
            if not self.closed.done():
                changed(blocked)

        self.raw.add_on_connection_blocked_callback(lambda _connection, _frame: on_change(True))
        self.raw.add_on_connection_unblocked_callback(lambda _connection, _frame: on_change(False))

    async def close(self, seconds: float) -> None:
        """Close politely. A broker that does not answer within *seconds* is left to pika, which
        ends the connection when the broker answers after all, or its heartbeats fail."""
        with suppress(AMQPError):
            for channel in self._channels:
                channel.flush()
            self.raw.close()
        await asyncio.wait([self.closed], timeout=seconds)
        _settle(self.closed, Lost("the broker did not close the connection"))
        for channel in self._channels:
            channel.end(self.closed.result())


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _lost(reason: BaseException) -> Lost:
    """Turn an error of pika into a `Lost` of one line."""
    while (inner := _inner(reason)) is not None:
        reason = inner
    if isinstance(reason, Lost):
        return reason
    if isinstance(reason, ChannelClosedByBroker | ConnectionClosedByBroker):
        return Lost(reason.reply_text, reason.reply_code, by_peer=True)
    if isinstance(reason, ProbableAuthenticationError):
        return Lost("the broker refused the user's name or password")
    if isinstance(reason, ProbableAccessDeniedError):
        return Lost("the broker refused the user access to the virtual host")
    if isinstance(reason, ConnectionOpenAborted):
        return Lost("no answer in time")
    if isinstance(reason, ssl.SSLError):
        return Lost(f"TLS: {reason}")
    by_peer = isinstance(reason, StreamLostError | ConnectionError)
    if isinstance(reason, OSError) and reason.strerror:
        return Lost(reason.strerror, by_peer=by_peer)
    text = str(reason) or type(reason).__name__
    if isinstance(reason, AMQPError | OSError | EOFError):
        return Lost(text, by_peer=by_peer)
    return Lost(f"what the broker sent cannot be read: {text}", offended=True)


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
