"""A consumer inside a program: what events of any subscription are sent to."""

from collections import deque
from typing import TYPE_CHECKING, Self, Unpack

from dragoman.client.base import Calling, event_of, sending
from dragoman.events import Event

if TYPE_CHECKING:
    from gateway.client.consumer import Consumer as Server
    from gateway.client.pulling import PulledMailbox


class Consumer:
    """Receives events in every specification; an asynchronous context manager and iterator.

    ::

        async with WseClient(url) as client, Consumer() as consumer:
            subscription = await client.subscribe(consumer.address, topic="storms")
            print(await consumer.receive())

    It is a small server, whose address nobody can guess, or, with *mailbox*, it fetches from a
    mailbox at a broker of Dragoman, which works where nobody can call the program. What it cannot
    take yet, the broker keeps.

    Args:
        host: The address to listen on.
        port: 0 chooses one.
        shown: The host in its address, where senders reach it under another one.
        mailbox: The URL of the broker to have a mailbox at, instead of a server.
        calling: For that broker, as `Client` takes it; `signers` without one, too.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        shown: str | None = None,
        mailbox: str | None = None,
        **calling: Unpack[Calling],
    ) -> None:
        self._host, self._port, self._shown = host, port, shown
        self._mailbox, self._calling = mailbox, calling
        self._signers = calling.get("signers")
        self._source: Server | PulledMailbox | None = None
        self._ready: deque[Event] = deque()
        self.address = ""
        """The URL that events are sent to; known once it is entered."""
        self.ended: list[str] = []
        """Why subscriptions ended, as their brokers said."""

    async def __aenter__(self) -> Self:
        """Listen, or make the mailbox.

        Raises:
            GatewayError: The address is in use, or there is no such broker.
        """
        self._source = await self._made().__aenter__()
        self.address = self._source.address
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._source is not None:
            await self._source.__aexit__()

    def _made(self) -> "Server | PulledMailbox":
        from gateway.client.consumer import Consumer as Server
        from gateway.client.pulling import PulledMailbox

        if self._mailbox is None:
            return Server(self._host, self._port, shown=self._shown)
        calling = sending(self._calling)
        calling.pop("timeout", None)
        return PulledMailbox(self._mailbox, **calling)

    async def receive(self) -> Event:
        """The next event; waits for it. A wait that is cancelled, by a time limit, say, loses none.

        Raises:
            GatewayError: The mailbox is gone.
        """
        if self._source is None:
            raise RuntimeError("enter the context manager first")
        while not self._ready:
            message = await anext(self._source)
            if message.ended is not None:
                self.ended.append(message.ended.reason or message.ended.status)
            self._ready.extend(event_of(one, self._signers) for one in message.notifications)
        return self._ready.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await self.receive()
