"""Publishing: what waits goes out as one transaction, and the next starts when it has ended.

A broker writes a transaction to its disk as one, so many publishers share one flush, as they do in
the embedded journal. (ActiveMQ 5.17 flushes message after message of one connection: 1,200 a
second; in transactions of 500 it took 9,800.) Where that is no gain every message has a receipt.

A message that is refused is named by its receipt. In a transaction only those have one that may be
refused, as far as is known: the first to their destination on a connection, and the largest so far.

It has a connection of its own: a broker short of memory stops reading from connections that
publish, and acknowledgements must still come through.
"""

import asyncio
import re
from collections.abc import Callable, Sequence

from adapters.broker.publications import Fall, Outgoing, Publications
from adapters.broker.reconnecting import Lost, Reconnect
from adapters.broker.refusals import Lesson
from adapters.protocol import AdapterUnavailable
from adapters.stomp.connection import Connection, Declined, Refused
from adapters.stomp.systems import Headers, System
from mediation.model.messages import Notification

CONFIRMATION = 15.0
"""Seconds that the broker gets to confirm."""
STALLED = 5.0
"""Seconds after which a broker that confirms nothing is said to take nothing, and after which a
publisher may ask again."""

BATCH_MESSAGES = 500
BATCH_OCTETS = 4 * 2**20
WAITING_MESSAGES = 2000
WAITING_OCTETS = 64 * 2**20
"""The most that may wait for a confirmation; publications beyond are refused."""
PROVEN = 10_000
"""Destinations that are known to take messages."""

_SIZE = re.compile(r"length|size|larg|big", re.IGNORECASE)


class Message(Outgoing):
    """One message, with the headers of its SEND."""

    __slots__ = ("body", "headers")

    def __init__(self, notification: Notification, headers: Headers, body: bytes) -> None:
        super().__init__(notification, (headers["destination"],), len(body))
        self.headers = headers
        self.body = body


class Publishing:
    """Publishes through the present connection.

    Args:
        system: The kind of broker.
    """

    def __init__(self, system: System, retry_after: Callable[[], float]) -> None:
        self._system = system
        self._retry_after = retry_after
        self._open = False
        self._since = 0.0
        self._come = asyncio.Event()
        self._proven: set[str] = set()
        self._proven_octets = 0
        """The destinations that took something on this connection, and its largest message."""
        self.publications: Publications[Message] = Publications(
            "stomp",
            messages=WAITING_MESSAGES,
            octets=WAITING_OCTETS,
            seconds=CONFIRMATION,
            retry_after=retry_after,
            teaches=self._lesson_of,
            stalled=STALLED,
        )

    async def serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Publish through *connection* until it ends."""
        self._proven.clear()
        self._proven_octets = 0
        self._open = True
        self.publications.recovered()
        ready()
        number = 0
        try:
            while True:
                await self._something(connection)
                number += 1
                self._since = connection.time()
                if batch := self.publications.take(BATCH_MESSAGES, BATCH_OCTETS):
                    await self._send(connection, batch, f"t{number}")
        except Lost as lost:
            if self.publications.fell(self._fall(lost)):
                raise Reconnect from lost
            raise
        finally:
            self._open = False
            if not self.publications.recovering:
                self.publications.give_up()

    @property
    def stalled(self) -> bool:
        """True if the broker is connected, but has confirmed nothing for a while."""
        now = asyncio.get_running_loop().time()
        return bool(self.publications.flying) and now - self._since > STALLED

    def publish(self, messages: Sequence[Message]) -> asyncio.Future[None]:
        """Publish *messages*. Returns a future that is done when the broker has confirmed them all,
        or raises `AdapterUnavailable` or `PublicationRefused`.

        Raises:
            AdapterUnavailable: The broker has none of them.
        """
        if not self._open and not self.publications.recovering:
            raise AdapterUnavailable(
                "there is no connection to the broker", retry_after=self._retry_after()
            )
        if self.stalled:
            raise AdapterUnavailable("the broker takes no messages now", retry_after=STALLED)
        done = self.publications.add(messages)
        self._come.set()
        return done

    async def _something(self, connection: Connection) -> None:
        """Wait until there is something to publish.

        Raises:
            Lost: The connection has ended.
        """
        while not self.publications.waiting and not connection.closed.done():
            self._come.clear()
            coming = asyncio.ensure_future(self._come.wait())
            either = (coming, connection.closed)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            coming.cancel()
        if connection.closed.done():
            raise connection.closed.result()

    async def _send(
        self, connection: Connection, batch: Sequence[Message], transaction: str
    ) -> None:
        """Return when it is known of all of *batch* whether the broker has it.

        Raises:
            Lost: The connection has ended.
        """
        answers: list[asyncio.Future[None] | None] = []
        whole: asyncio.Future[None] | None = None
        if self._system.transactional:
            connection.send("BEGIN", {"transaction": transaction})
            for message in batch:
                headers = {**message.headers, "transaction": transaction}
                named = not self._is_proven(message)
                answers.append(_send_one(connection, headers, message.body, named=named))
            receipt, whole = connection.expect()
            connection.send("COMMIT", {"transaction": transaction, "receipt": receipt})
        else:
            for message in batch:
                answers.append(_send_one(connection, message.headers, message.body, named=True))
        await asyncio.wait([answer for answer in (*answers, whole) if answer is not None])
        errors = [None if answer is None else answer.exception() for answer in answers]
        self._settle_all(batch, errors, None if whole is None else whole.exception())

    def _settle_all(
        self,
        batch: Sequence[Message],
        errors: Sequence[BaseException | None],
        failed: BaseException | None,
    ) -> None:
        """Take the broker's answers to *batch*; *failed* is that to the transaction.

        Raises:
            Lost: The connection has ended.
        """
        by_name = [isinstance(error, Declined) for error in errors]
        for message, error, declined in zip(batch, errors, by_name, strict=True):
            if declined or failed is None:
                self._settle(message, error)
        if failed is None or (isinstance(failed, Declined) and any(by_name)):
            # Of those that name nothing that was refused: the connection ended before its answer.
            lost = (error for error in errors if not isinstance(error, Declined | None))
            failed = next(lost, None)
        if failed is not None:
            try:
                raise failed
            finally:
                del failed
        self.publications.put_back()  # What is in flight yet was rolled back with the refused ones.

    def _settle(self, message: Message, error: BaseException | None) -> None:
        """Take the broker's answer for one message; any other *error* than a refusal says that the
        connection ended before it came."""
        if error is None:
            self._prove(message)
            self.publications.confirmed(message)
        elif isinstance(error, Declined):
            said = self._system.refuses(error.kind, str(error))
            self.publications.declined(message, str(error), said=said)

    def _is_proven(self, message: Message) -> bool:
        proven = message.headers["destination"] in self._proven
        return proven and message.octets <= self._proven_octets

    def _prove(self, message: Message) -> None:
        if len(self._proven) < PROVEN:
            self._proven.add(message.headers["destination"])
        self._proven_octets = max(self._proven_octets, message.octets)

    def _lesson_of(self, message: Message, words: str) -> Lesson:
        """Return what the broker's *words* say about other messages than *message*."""
        if self._system.forbids(words):
            return Lesson(destination=message.destinations[0])
        if _SIZE.search(words):
            return Lesson(octets=message.octets)
        return Lesson()

    def _fall(self, lost: Lost) -> Fall:
        if isinstance(lost, Refused):
            said = self._system.refuses(lost.kind, lost.words)
            return Fall(lost.words or str(lost), by_message=True, said=said)
        return Fall(str(lost), by_message=lost.by_peer)


def _send_one(
    connection: Connection, headers: Headers, body: bytes, *, named: bool
) -> asyncio.Future[None] | None:
    if not named:
        connection.send("SEND", headers, body)
        return None
    receipt, answer = connection.expect()
    connection.send("SEND", {**headers, "receipt": receipt}, body)
    return answer
