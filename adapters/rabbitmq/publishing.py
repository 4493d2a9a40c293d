"""Publishing: many messages are in flight, and each publisher is answered when its own are
confirmed.

It has a connection of its own: a broker in an alarm stops reading from connections that publish,
and acknowledgements must still come through.

What the broker will not take it answers by closing the channel, in its words; another one is opened
on the same connection, and `Publications` finds out which message it was.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence

import pika

from adapters.broker.publications import Fall, Outgoing, Publications
from adapters.broker.reconnecting import Reconnect
from adapters.broker.refusals import Lesson
from adapters.protocol import AdapterUnavailable
from adapters.rabbitmq.connection import (
    ACCESS_REFUSED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    Channel,
    Connection,
    Lost,
)
from mediation.model.messages import Notification

CONFIRMATION = 15.0
"""Seconds that the broker gets to confirm."""
BLOCKED = 5.0
"""Seconds after which a publisher may ask again whether the broker's alarm is over."""

WAITING_MESSAGES = 2000
WAITING_OCTETS = 64 * 2**20
"""The most that may wait for a confirmation; publications beyond are refused."""

SAID = frozenset({ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED})
"""Reply codes that say that a message, or its exchange, is not taken."""
CONNECTION_FORCED = 320
"""The reply code of a broker, or an operator, that ends connections for reasons of its own."""

_TOO_LARGE = re.compile(r"message size \d+ is larger than configured max size (\d+)")
_EXCHANGE = re.compile(r"(?:access to|publish to internal|no) exchange '")


class Message(Outgoing):
    """One message. ``wanted``: the gateway itself waits for it, so it must reach a queue."""

    __slots__ = ("body", "exchange", "key", "properties", "wanted")

    def __init__(
        self,
        notification: Notification,
        exchange: str,
        key: str,
        properties: pika.BasicProperties,
        body: bytes,
        wanted: bool,
    ) -> None:
        super().__init__(notification, (exchange, f"{exchange}/{key}"), len(body))
        self.exchange = exchange
        self.key = key
        self.properties = properties
        self.body = body
        self.wanted = wanted


def lesson_of(message: Message, words: str) -> Lesson:
    """Return what the reply text *words* says about other messages than *message*."""
    if found := _TOO_LARGE.search(words):
        return Lesson(octets=int(found[1]) + 1)
    if "larger than" in words:
        return Lesson(octets=message.octets)
    if _EXCHANGE.search(words):
        return Lesson(destination=message.destinations[0])
    if words.startswith(("ACCESS_REFUSED", "NOT_FOUND")):
        return Lesson(destination=message.destinations[-1])
    return Lesson()


class Publishing:
    """Publishes through the present connection.

    Args:
        declare: Declares the exchanges that are published to.
        unroutable: Called when the broker had no queue for a message that some interest covers: its
            topology is not what it should be.
    """

    def __init__(
        self,
        adapter: str,
        declare: Callable[[Connection], Awaitable[None]],
        unroutable: Callable[[], None],
        retry_after: Callable[[], float],
    ) -> None:
        self._declare = declare
        self._unroutable = unroutable
        self._retry_after = retry_after
        self.blocked = False
        """True while the broker has an alarm, and takes no messages."""
        self._channel: Channel | None = None
        self._tag = 0
        self._tags: dict[int, Message] = {}
        """The messages in flight by tag, in their order."""
        self.publications: Publications[Message] = Publications(
            adapter,
            messages=WAITING_MESSAGES,
            octets=WAITING_OCTETS,
            seconds=CONFIRMATION,
            retry_after=retry_after,
            teaches=lesson_of,
        )

    async def serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Publish through *connection* until it ends."""
        self.blocked = False
        connection.watch_alarms(self._on_alarm)
        code = NOT_FOUND
        try:
            while True:
                if code == NOT_FOUND:
                    await self._declare(connection)
                lost = await self._serve_channel(connection, ready)
                code = lost.code
                if not self.publications.fell(_fall(lost)):
                    try:
                        raise lost
                    finally:
                        del lost
                if not connection.is_open:
                    raise Reconnect
        except Lost:
            self.publications.give_up()
            raise
        finally:
            if not self.publications.recovering:
                self.publications.give_up()

    async def _serve_channel(self, connection: Connection, ready: Callable[[], None]) -> Lost:
        """Publish through a channel; why it ended."""
        channel = await connection.channel()
        await channel.confirm(self._on_answer, self._on_return)
        self._tag = 0
        self._channel = channel
        self.publications.recovered()
        ready()
        try:
            self._send()
            await asyncio.wait([channel.closed])
        finally:
            self._channel = None
            self._tags.clear()
        return channel.closed.result()

    def publish(self, messages: Sequence[Message]) -> asyncio.Future[None]:
        """Publish *messages*. Returns a future that is done when the broker has confirmed them all,
        or raises `AdapterUnavailable` or `PublicationRefused`.

        Raises:
            AdapterUnavailable: The broker has none of them.
        """
        if self._channel is None and not self.publications.recovering:
            raise AdapterUnavailable(
                "there is no connection to the broker", retry_after=self._retry_after()
            )
        if self.blocked:
            raise AdapterUnavailable("the broker takes no messages now", retry_after=BLOCKED)
        done = self.publications.add(messages)
        self._send()
        return done

    def _send(self) -> None:
        """Send what may be sent now."""
        channel = self._channel
        if channel is None or channel.closed.done():
            return
        for message in self.publications.take(WAITING_MESSAGES, WAITING_OCTETS):
            try:
                channel.publish(
                    message.exchange,
                    message.key,
                    message.properties,
                    message.body,
                    mandatory=message.wanted,
                )
            except Lost:
                return  # The channel has ended: all of them are in flight, and go again.
            self._tag += 1
            self._tags[self._tag] = message

    def _on_answer(self, tag: int, multiple: bool, refused: bool) -> None:
        """Take the broker's answer: one message, or all up to it, confirmed or refused."""
        if not multiple:
            self._answered(tag, refused)
        else:
            tags = []
            for each in self._tags:
                if tag and each > tag:
                    break
                tags.append(each)
            for each in tags:
                self._answered(each, refused)
        if self.publications.waiting:
            self._send()

    def _answered(self, tag: int, refused: bool) -> None:
        message = self._tags.pop(tag, None)
        if message is None:
            return
        if refused:
            self.publications.failed(message, "the broker refused a message")
        else:
            self.publications.confirmed(message)

    def _on_return(self, properties: pika.BasicProperties) -> None:
        """Note that a mandatory message reached no queue; its basic.ack follows."""
        returned = str((properties.headers or {}).get("cloudEvents_id", ""))
        for message in self._tags.values():
            if message.notification.id == returned:
                message.doubt = "the broker has no queue for a message"
        self._unroutable()

    def _on_alarm(self, blocked: bool) -> None:
        self.blocked = blocked
        if blocked:
            self.publications.refuse_all("the broker takes no messages now", BLOCKED)


def _fall(lost: Lost) -> Fall:
    by_message = lost.by_peer and lost.code != CONNECTION_FORCED
    return Fall(str(lost), by_message=by_message, said=lost.code in SAID)
