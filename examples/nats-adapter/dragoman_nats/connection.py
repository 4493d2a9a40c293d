"""A connection to the server, and the acknowledgements that wait for their turn on it."""

import asyncio
from contextlib import suppress

import nats
from nats.aio.client import Client

from adapters.broker.reconnecting import POLITE, Lost
from dragoman_nats.settings import Setup

ANSWER = 10.0
"""Seconds that the server gets for one answer."""

FAILURES = (OSError, TimeoutError, nats.errors.Error)
"""The errors that nats-py raises."""


class Connection:
    """A connection until it ends: nats-py opens no other, `Reconnector` does.

    ``open``: what is settled can be acknowledged.
    """

    def __init__(self) -> None:
        self.client = Client()
        self.stream = self.client.jetstream(timeout=ANSWER)
        self.open = True
        self._replies: asyncio.Queue[str] = asyncio.Queue()
        self._last = ""
        self._why = ""

    @classmethod
    async def to(cls, setup: Setup) -> "Connection":
        """Connect.

        Raises:
            Lost: It failed.
        """
        connection = cls()

        async def closed() -> None:
            connection.end("the connection was closed")

        errors: list[Exception] = []

        async def note(error: Exception) -> None:
            errors[:] = [error]

        try:
            async with asyncio.timeout(ANSWER):
                await connection.client.connect(
                    setup.server,
                    name="Dragoman",
                    user=setup.user,
                    password=setup.password,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    closed_cb=closed,
                    error_cb=note,
                )
        except BaseException as exc:  # A gateway that ends meanwhile leaves no socket behind.
            await connection.close(POLITE)
            if isinstance(exc, FAILURES):
                raise Lost(why(errors[0] if errors else exc)) from exc
            raise
        return connection

    def acknowledge(self, reply: str) -> None:
        """Acknowledge the message with the reply subject *reply*, soon."""
        if self.open:
            self._replies.put_nowait(reply)

    def end(self, why: str) -> None:
        """End the connection: it is of no use any more; the first reason counts."""
        self._why = self._why or why
        self._replies.put_nowait("")

    async def acknowledge_next(self) -> None:
        """Acknowledge one message, as soon as there is one.

        Raises:
            Lost: The connection has ended.
        """
        reply = await self._replies.get()
        if self._why:
            raise Lost(self._why)
        await self.client.publish(reply, b"+ACK")
        self._last = reply

    async def finish(self) -> None:
        """Return when the server has taken all acknowledgements: it does so in their order, and
        answers the last one, which it gets twice."""
        while not self._replies.empty():
            await self.acknowledge_next()
        if self._last:
            await self.client.request(self._last, b"+ACK", timeout=POLITE)

    async def close(self, seconds: float) -> None:
        with suppress(*FAILURES):
            async with asyncio.timeout(seconds):
                await self.client.close()


def why(exc: BaseException) -> str:
    return str(exc) or type(exc).__name__
