"""The adapter itself.

    publishers ──> subjects that are wanted ──> a stream ──────> its consumer ──────> gateway
                   dragoman.weather.storms.>    (work queue)     (push, explicit acks)

The stream's subjects are the interests. It keeps a message until it is acknowledged, and its only
consumer gives at most `prefetch` ahead of acknowledgements. Each connection makes the consumer
anew, so that it begins with the first message that was not acknowledged: what was not settled comes
again, first and in order, and no timer ever sends a message twice.

Subjects are coarser than interests (a stream's subjects may not overlap, and ``>`` only stands at
the end), so messages that no interest covers are acknowledged here and not yielded.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from nats.aio.msg import Msg
from nats.errors import NotJSMessageError
from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo, RetentionPolicy, StreamConfig
from nats.js.errors import NoStreamResponseError, NotFoundError

from adapters import (
    AdapterUnavailable,
    Capabilities,
    Interest,
    Isolated,
    PublicationRefused,
    Refusal,
)
from adapters.broker.destinations import Destination
from adapters.broker.reconnecting import POLITE, Lost, Reconnector, start_all
from adapters.interests import Interests
from adapters.options import at_port, with_own
from dragoman_nats.connection import ANSWER, FAILURES, Connection, why
from dragoman_nats.messages import NeverTaken, read, write
from dragoman_nats.settings import PORT, Setup, read_setup
from dragoman_nats.subjects import Patterns, patterns_of, subjects_of
from filters import DEFAULT_TOPIC
from mediation.model.messages import Notification

CONSUMER = "gateway"

WATCH = 10.0
"""Seconds without a settlement, after which the consumer is looked at: nobody tells that it is
gone."""
PREDECESSOR = 2.0
"""Seconds for which a gateway that has just ended may still be seen."""
REMEMBERED = 600.0
"""Seconds for which the server remembers a publisher's id."""
NO_TIMER = 7 * 24 * 3600.0
"""Seconds after which the server sends an unsettled message again: longer than any stays so."""


class NatsDelivery:
    """A message of the stream."""

    __slots__ = ("_connection", "_notification", "_redelivered", "_reply")

    partition = 0

    def __init__(
        self, connection: Connection, reply: str, notification: Notification, redelivered: bool
    ) -> None:
        self._connection = connection
        self._reply: str | None = reply
        self._notification = notification
        self._redelivered = redelivered

    @property
    def notification(self) -> Notification:
        return self._notification

    @property
    def redelivered(self) -> bool:
        return self._redelivered

    def settle(self) -> None:
        """Acknowledge the message. After its connection has ended this does nothing: it comes
        again."""
        if self._reply is not None:
            self._connection.acknowledge(self._reply)
            self._reply = None


class NatsAdapter:
    """The adapter of NATS JetStream. The README has the settings."""

    def __init__(self, setup: Setup) -> None:
        self.capabilities = Capabilities(durable=True, prefetch=setup.prefetch)
        self._setup = setup
        self._inbox = f"_INBOX.{uuid.uuid4().hex}"
        self._wanted: dict[Interest, Patterns] = {}
        self._interests = Interests()
        self._changing = asyncio.Lock()
        self._reconnector = Reconnector("nats", "everything", self._connect, self._serve)
        self._connection: Connection | None = None
        self._arrived: deque[tuple[Connection, Msg]] = deque()
        self._changed = asyncio.Event()
        self._given = 0
        """The number of the last message of the stream that was yielded."""
        self._repeated = 0
        """The number of the last message that an earlier connection, or gateway, may have got
        too."""
        self._open = False

    @classmethod
    def from_url(cls, url: str, *, data: Path, settings: Mapping[str, str]) -> Self:
        return cls(read_setup(url, settings))

    @classmethod
    def isolate(
        cls, url: str, settings: Mapping[str, str], *, name: str, through: int | None = None
    ) -> Isolated:
        """As `Isolating.isolate`: a stream of its own, and subjects below *name*."""
        own = {"stream": name, "root": name}
        url, settings = with_own(url, settings, own, without=("subjects", "prefix."))
        server = urlsplit(read_setup(url, settings).server)
        url = url if through is None else at_port(url, through)
        return Isolated(url, settings, (server.hostname or "", server.port or PORT))

    async def remove(self) -> Collection[str]:
        """As `Isolating.remove`."""
        try:
            connection = await self._connect()
            try:
                with suppress(NotFoundError):
                    await connection.stream.delete_stream(self._setup.stream)
            finally:
                await connection.close(POLITE)
        except (Lost, *FAILURES) as exc:
            raise AdapterUnavailable(str(exc) or "it does not answer") from exc
        return ()

    async def start(self, interests: Collection[Interest]) -> None:
        """As `Adapter.start`, but does not fail when the server cannot be reached."""
        self._interests.replace(interests)
        self._wanted = {one: patterns_of(one, self._setup.destinations) for one in interests}
        self._open = True
        await start_all([self._reconnector])

    async def publish(self, notifications: Sequence[Notification]) -> None:
        connection = self._connected()
        refusals = []
        try:
            for one in notifications:
                try:
                    await self._publish(connection, one)
                except NeverTaken as never:
                    refusals.append(Refusal(one, str(never)))
        except NoStreamResponseError as exc:
            connection.end("the stream has not the subjects that it should have")
            raise AdapterUnavailable("the stream is being set up again") from exc
        except FAILURES as exc:
            raise AdapterUnavailable(f"the server did not confirm: {why(exc)}") from exc
        if refusals:
            raise PublicationRefused(refusals)

    async def _publish(self, connection: Connection, notification: Notification) -> None:
        """Return when the server has *notification*.

        Raises:
            NeverTaken: It will never take it.
        """
        headers, body = write(notification, max_octets=connection.client.max_payload)
        subject = self._setup.destinations.destination(notification.topic).name
        forbidden = connection.forbidden(subject)
        try:
            if self._interests.cover(notification.topic):
                stream = connection.stream.publish(subject, body, ANSWER, headers=headers)
                confirmed = asyncio.ensure_future(stream)
                await asyncio.wait((confirmed, forbidden), return_when=asyncio.FIRST_COMPLETED)
                if not forbidden.done():
                    confirmed.result()
                confirmed.cancel()
            else:  # No stream answers for it, but programs may listen.
                await connection.client.publish(subject, body, headers=headers)
                for _ in range(2):  # nats-py writes the first PING before what it has yet to send.
                    await connection.client.flush(int(ANSWER))
            if forbidden.done():
                raise NeverTaken(forbidden.result())
        finally:
            connection.allowed(subject)

    async def want(self, interest: Interest) -> None:
        patterns = patterns_of(interest, self._setup.destinations)
        async with self._in_turn() as connection:
            if interest not in self._wanted:
                await self._set_subjects(connection, [*self._wanted.values(), patterns])
                self._wanted[interest] = patterns
                self._interests.add(interest)

    async def unwant(self, interest: Interest) -> None:
        if self._wanted.pop(interest, None) is not None:
            self._interests.discard(interest)
            with suppress(AdapterUnavailable):  # The next change, or connection, does it.
                async with self._in_turn() as connection:
                    await self._set_subjects(connection, self._wanted.values())

    async def deliveries(self) -> AsyncIterator[NatsDelivery]:
        while self._open:
            if not self._arrived:
                self._changed.clear()
                await self._changed.wait()
            elif (delivery := self._delivery(*self._arrived.popleft())) is not None:
                yield delivery

    async def close(self) -> None:
        self._open = False
        self._changed.set()
        if self._connection is not None:
            with suppress(Lost, *FAILURES):
                async with asyncio.timeout(POLITE):
                    await self._connection.finish()
        await self._reconnector.close()

    def _delivery(self, connection: Connection, message: Msg) -> NatsDelivery | None:
        """Return the delivery of *message*, None if no interest covers it."""
        try:
            origin = message.metadata
        except NotJSMessageError:
            return None  # Somebody has guessed the inbox.
        number = origin.sequence.stream
        topic = self._setup.destinations.topic(Destination(message.subject))
        notification = read(
            message.data,
            message.headers or {},
            id=f"{self._setup.source}#{number}",
            source=self._setup.source,
            time=origin.timestamp,
            topic=None if topic == DEFAULT_TOPIC else topic,
        )
        if self._interests.cover(notification.topic):
            self._given = max(self._given, number)
            return NatsDelivery(connection, message.reply, notification, number <= self._repeated)
        connection.acknowledge(message.reply)
        return None

    # ------------------------------------------------------------------- what stands in the server

    async def _connect(self) -> Connection:
        return await Connection.to(self._setup)

    async def _serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Set everything up, and acknowledge settled messages, until the connection ends."""
        try:
            async with self._changing:
                await self._set_up(connection)
                self._connection = connection
            ready()
            while True:
                try:
                    async with asyncio.timeout(WATCH):
                        await connection.acknowledge_next()
                except TimeoutError:
                    await self._look_after(connection)
        except FAILURES as exc:
            raise Lost(why(exc)) from exc
        finally:
            self._connection = None
            connection.open = False
            self._arrived.clear()

    async def _set_up(self, connection: Connection) -> None:
        """Make the server's side equal to the interests, and begin with unsettled messages.

        The subjects change at once, so that nothing falls between an earlier run and this one.
        """
        consumer = await self._free_consumer(connection)
        last = await self._set_subjects(connection, self._wanted.values())
        if consumer is not None and consumer.delivered is not None:
            last = consumer.delivered.stream_seq
        # Without a consumer nobody knows what was given before: all of it, perhaps. After a crash
        # of the server it knows less than this adapter.
        self._repeated = max(last, self._given)

        if consumer is not None:  # Before it finds that somebody listens again.
            await connection.stream.delete_consumer(self._setup.stream, CONSUMER)

        async def arrived(message: Msg) -> None:
            self._arrived.append((connection, message))
            self._changed.set()

        # The bound is the consumer's; nats-py would drop what exceeds one of its own.
        await connection.client.subscribe(
            self._inbox, cb=arrived, pending_msgs_limit=0, pending_bytes_limit=0
        )
        await connection.stream.add_consumer(
            self._setup.stream,
            ConsumerConfig(
                durable_name=CONSUMER,
                deliver_subject=self._inbox,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=NO_TIMER,
                max_ack_pending=self._setup.prefetch,
            ),
        )

    async def _free_consumer(self, connection: Connection) -> ConsumerInfo | None:
        """Return the consumer, once nobody else uses it; None if there is none.

        Raises:
            Lost: Another gateway does.
        """
        now = asyncio.get_running_loop().time
        end = now() + PREDECESSOR
        while True:
            try:
                consumer: ConsumerInfo = await connection.stream.consumer_info(
                    self._setup.stream, CONSUMER
                )
            except NotFoundError:
                return None
            if not consumer.push_bound or consumer.config.deliver_subject == self._inbox:
                return consumer
            if now() > end:
                raise Lost(f"another gateway uses the stream {self._setup.stream!r}")
            await asyncio.sleep(0.05)

    async def _look_after(self, connection: Connection) -> None:
        consumer = await connection.stream.consumer_info(self._setup.stream, CONSUMER)
        if consumer.config.deliver_subject != self._inbox:
            raise Lost(f"another gateway uses the stream {self._setup.stream!r}")

    async def _set_subjects(self, connection: Connection, wanted: Collection[Patterns]) -> int:
        """Let the stream take what is *wanted*. Other settings of an operator stay as they are.

        Returns:
            The number of the stream's last message; where there was none, 0.
        """
        name = self._setup.stream
        subjects = subjects_of(wanted, self._setup.destinations)
        try:
            info = await connection.stream.stream_info(name)
        except NotFoundError:
            info = await connection.stream.add_stream(
                StreamConfig(
                    name=name,
                    subjects=subjects,
                    retention=RetentionPolicy.WORK_QUEUE,
                    num_replicas=self._setup.replicas,
                    duplicate_window=REMEMBERED,
                )
            )
        if info.config.retention != RetentionPolicy.WORK_QUEUE:
            raise Lost(f"the stream {name!r} exists, and is no work queue")
        if sorted(info.config.subjects or ()) != subjects:
            await connection.stream.update_stream(info.config.evolve(subjects=subjects))
        return info.state.last_seq

    def _connected(self) -> Connection:
        if self._connection is None:
            raise AdapterUnavailable(
                "there is no connection to the server", retry_after=self._reconnector.retry_after
            )
        return self._connection

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[Connection]:
        """Wait for the turn of one change of the interests, and yield the connection.

        Raises:
            AdapterUnavailable: There is none, or the change failed.
        """
        try:
            async with asyncio.timeout(ANSWER), self._changing:
                yield self._connected()
        except (Lost, *FAILURES) as exc:
            raise AdapterUnavailable(
                f"the server did not accept the subscription: {why(exc)}"
            ) from exc
