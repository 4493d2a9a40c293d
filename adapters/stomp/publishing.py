"""Publishing: what waits goes out as one transaction, and the next starts when it has ended.

A broker writes a transaction to its disk as one, so many publishers share one flush, as they do in
the embedded journal. (ActiveMQ 5.17 flushes message after message of one connection: 1,200 a
second; in transactions of 500 it took 9,800.) Where that is no gain every message has a receipt.

It has a connection of its own: a broker short of memory stops reading from connections that
publish, and acknowledgements must still come through.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from adapters.broker.confirms import Deadlines, Publication
from adapters.protocol import AdapterUnavailable
from adapters.stomp.connection import Connection
from adapters.stomp.systems import Headers

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


class Message(NamedTuple):
    """One message, with the headers of its SEND."""

    headers: Headers
    body: bytes


class _Publication(Publication):
    """The wait of one publisher. Its messages are sent in one batch."""

    __slots__ = ("messages", "octets")

    def __init__(self, messages: Sequence[Message], octets: int, deadline: float) -> None:
        super().__init__(deadline)
        self.messages = messages
        self.octets = octets


class Publishing:
    """Publishes through the present connection.

    Args:
        transactional: As `System.transactional`.
    """

    def __init__(self, transactional: bool, retry_after: Callable[[], float]) -> None:
        self._transactional = transactional
        self._retry_after = retry_after
        self._open = False
        self._waiting: deque[_Publication] = deque()
        self._under_way: list[_Publication] = []
        self._since = 0.0
        self._messages = 0
        self._octets = 0
        self._come = asyncio.Event()
        self._deadlines = Deadlines(lambda: [*self._under_way, *self._waiting], retry_after=STALLED)

    async def serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Publish through *connection* until it ends."""
        self._open = True
        ready()
        number = 0
        try:
            while True:
                await self._something(connection)
                number += 1
                self._take_batch()
                await self._send(connection, f"t{number}")
                for publication in self._under_way:
                    publication.confirm()
                self._forget(self._under_way)
        finally:
            self._open = False
            left = [*self._under_way, *self._waiting]
            for publication in left:
                publication.refuse("the connection to the broker was lost", self._retry_after())
            self._forget(left)
            self._waiting.clear()
            self._deadlines.close()

    @property
    def stalled(self) -> bool:
        """True if the broker is connected, but has confirmed nothing for a while."""
        now = asyncio.get_running_loop().time()
        return bool(self._under_way) and now - self._since > STALLED

    def publish(self, messages: Sequence[Message]) -> asyncio.Future[None]:
        """Publish *messages*. Returns a future that is done when the broker has confirmed them all,
        or raises `AdapterUnavailable` if it does not.

        Raises:
            AdapterUnavailable: The broker has none of them.
        """
        if not self._open:
            raise AdapterUnavailable(
                "there is no connection to the broker", retry_after=self._retry_after()
            )
        if self.stalled:
            raise AdapterUnavailable("the broker takes no messages now", retry_after=STALLED)
        octets = sum(len(message.body) for message in messages)
        if self._messages and (
            self._messages + len(messages) > WAITING_MESSAGES
            or self._octets + octets > WAITING_OCTETS
        ):
            raise AdapterUnavailable("too many messages wait for the broker")
        deadline = asyncio.get_running_loop().time() + CONFIRMATION
        publication = _Publication(messages, octets, deadline)
        self._waiting.append(publication)
        self._messages += len(messages)
        self._octets += octets
        self._come.set()
        self._deadlines.watch(publication)
        return publication.done

    async def _something(self, connection: Connection) -> None:
        """Wait until there is something to publish.

        Raises:
            Lost: The connection has ended.
        """
        while not self._waiting and not connection.closed.done():
            self._come.clear()
            coming = asyncio.ensure_future(self._come.wait())
            either = (coming, connection.closed)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            coming.cancel()
        if connection.closed.done():
            raise connection.closed.result()

    def _take_batch(self) -> None:
        messages = octets = 0
        while self._waiting:
            following = self._waiting[0]
            messages += len(following.messages)
            octets += following.octets
            if self._under_way and (messages > BATCH_MESSAGES or octets > BATCH_OCTETS):
                break
            self._under_way.append(self._waiting.popleft())
        self._since = asyncio.get_running_loop().time()

    async def _send(self, connection: Connection, transaction: str) -> None:
        """Return when all that is under way is confirmed.

        Raises:
            Lost: It is not, for the connection has ended or the broker refused something.
        """
        messages = [each for publication in self._under_way for each in publication.messages]
        answers = []
        if self._transactional:
            connection.send("BEGIN", {"transaction": transaction})
            for message in messages:
                headers = {**message.headers, "transaction": transaction}
                connection.send("SEND", headers, message.body)
            receipt, answer = connection.expect()
            answers.append(answer)
            connection.send("COMMIT", {"transaction": transaction, "receipt": receipt})
        else:
            for message in messages:
                receipt, answer = connection.expect()
                answers.append(answer)
                headers = {**message.headers, "receipt": receipt}
                connection.send("SEND", headers, message.body)
        await asyncio.gather(*answers)

    def _forget(self, publications: list[_Publication]) -> None:
        for publication in publications:
            self._messages -= len(publication.messages)
            self._octets -= publication.octets
        self._under_way.clear()
