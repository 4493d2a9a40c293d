"""Publishing: many messages are in flight, and each publisher is answered when its own are
confirmed.

It has a connection of its own: a broker in an alarm stops reading from connections that publish,
and acknowledgements must still come through.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence

import pika

from adapters.broker.confirms import Deadlines, Publication
from adapters.protocol import AdapterUnavailable
from adapters.rabbitmq.connection import Channel, Connection, Lost
from adapters.rabbitmq.topology import declare_exchanges

CONFIRMATION = 15.0
"""Seconds that the broker gets to confirm."""
BLOCKED = 5.0
"""Seconds after which a publisher may ask again whether the broker's alarm is over."""

WAITING_MESSAGES = 2000
WAITING_OCTETS = 64 * 2**20
"""The most that may wait for a confirmation; publications beyond are refused."""


class Message:
    """One message. ``wanted``: the gateway itself waits for it, so it must reach a queue."""

    __slots__ = ("body", "exchange", "id", "key", "properties", "wanted")

    def __init__(
        self,
        exchange: str,
        key: str,
        id: str,
        properties: pika.BasicProperties,
        body: bytes,
        wanted: bool,
    ) -> None:
        self.exchange = exchange
        self.key = key
        self.id = id
        self.properties = properties
        self.body = body
        self.wanted = wanted


class _Publication(Publication):
    """The wait of one publisher for all of its messages."""

    __slots__ = ("failure", "remaining")

    def __init__(self, remaining: int, deadline: float) -> None:
        super().__init__(deadline)
        self.remaining = remaining
        self.failure: str | None = None


class Publishing:
    """Publishes through the present connection.

    Args:
        unroutable: Called when the broker had no queue for a message that some interest covers: its
            topology is not what it should be.
    """

    def __init__(
        self,
        exchange: str,
        others: Collection[str],
        unroutable: Callable[[], None],
        retry_after: Callable[[], float],
    ) -> None:
        self._exchange = exchange
        self._others = others
        self._unroutable = unroutable
        self._retry_after = retry_after
        self.blocked = False
        """True while the broker has an alarm, and takes no messages."""
        self._channel: Channel | None = None
        self._tag = 0
        self._waiting: dict[int, tuple[_Publication, str, int]] = {}
        """Unconfirmed messages by tag, in their order: the publication, the message's id, the bytes
        of its body."""
        self._octets = 0
        self._deadlines = Deadlines(
            lambda: [publication for publication, _id, _octets in self._waiting.values()],
            retry_after=1.0,
        )

    async def serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Publish through *connection* until it, or its channel, ends."""
        self.blocked = False
        connection.watch_alarms(self._on_alarm)
        await declare_exchanges(connection, self._exchange, self._others)
        channel = await connection.channel()
        await channel.confirm(self._on_answer, self._on_return)
        self._tag = 0
        self._channel = channel
        ready()
        try:
            await asyncio.wait([channel.closed])
        finally:
            self._channel = None
            self._fail("the connection to the broker was lost")
        raise channel.closed.result()

    def publish(self, messages: Sequence[Message]) -> asyncio.Future[None]:
        """Publish *messages*. Returns a future that is done when the broker has confirmed them all,
        or raises `AdapterUnavailable` if it does not.

        Raises:
            AdapterUnavailable: The broker has none of them.
        """
        channel = self._channel
        if channel is None:
            raise AdapterUnavailable(
                "there is no connection to the broker", retry_after=self._retry_after()
            )
        if self.blocked:
            raise AdapterUnavailable("the broker takes no messages now", retry_after=BLOCKED)
        waiting = self._waiting
        octets = 0
        for message in messages:
            octets += len(message.body)
        if waiting and (
            len(waiting) + len(messages) > WAITING_MESSAGES
            or self._octets + octets > WAITING_OCTETS
        ):
            raise AdapterUnavailable("too many messages wait for the broker")
        deadline = asyncio.get_running_loop().time() + CONFIRMATION
        publication = _Publication(len(messages), deadline)
        try:
            for message in messages:
                channel.publish(
                    message.exchange,
                    message.key,
                    message.properties,
                    message.body,
                    mandatory=message.wanted,
                )
                self._tag += 1
                waiting[self._tag] = publication, message.id, len(message.body)
                self._octets += len(message.body)
        except Lost as exc:
            raise AdapterUnavailable("the connection to the broker was lost") from exc
        self._deadlines.watch(publication)
        return publication.done

    def _on_answer(self, tag: int, multiple: bool, refused: bool) -> None:
        """Take the broker's answer: one message, or all up to it, confirmed or refused."""
        waiting = self._waiting
        if not multiple:
            self._answered(tag, refused)
            return
        tags = []
        for each in waiting:
            if tag and each > tag:
                break
            tags.append(each)
        for each in tags:
            self._answered(each, refused)

    def _answered(self, tag: int, refused: bool) -> None:
        found = self._waiting.pop(tag, None)
        if found is None:
            return
        publication, _id, octets = found
        self._octets -= octets
        publication.remaining -= 1
        if refused:
            publication.failure = "the broker refused a message"
        if publication.remaining:
            return
        if publication.failure is not None:
            publication.refuse(publication.failure, 1.0)
        else:
            publication.confirm()

    def _on_return(self, properties: pika.BasicProperties) -> None:
        """Note that a mandatory message reached no queue; its basic.ack follows."""
        returned = str((properties.headers or {}).get("cloudEvents_id", ""))
        for publication, id, _octets in self._waiting.values():
            if id == returned:
                publication.failure = "the broker has no queue for a message"
        self._unroutable()

    def _on_alarm(self, blocked: bool) -> None:
        self.blocked = blocked
        if blocked:
            for publication, _id, _octets in self._waiting.values():
                publication.refuse("the broker takes no messages now", BLOCKED)

    def _fail(self, text: str) -> None:
        for publication, _id, _octets in self._waiting.values():
            publication.refuse(text, self._retry_after())
        self._waiting.clear()
        self._octets = 0
        self._deadlines.close()
