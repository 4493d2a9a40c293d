"""A connection to the server, and the acknowledgements that wait for their turn on it."""

import asyncio
import re
from contextlib import suppress

import nats
from nats.aio.client import Client

from adapters.broker.reconnecting import POLITE, Lost
from dragoman_nats.settings import Setup

ANSWER = 10.0
"""Seconds that the server gets for one answer."""

FAILURES = (OSError, TimeoutError, nats.errors.Error)
"""The errors that nats-py raises."""


FORBIDDEN = re.compile(r'permissions violation for publish to "([^"]*)"', re.IGNORECASE)


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
        self._publishing: dict[str, asyncio.Future[str]] = {}
        """By subject, what is done with the server's words when it forbids to publish there."""

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
            connection.forbid(str(error))

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

    def forbidden(self, subject: str) -> "asyncio.Future[str]":
        """What is done with the server's words when it forbids to publish to *subject*: it says so
        beside the publication, which it never answers."""
        if subject not in self._publishing:
            self._publishing[subject] = asyncio.get_running_loop().create_future()
        return self._publishing[subject]

    def allowed(self, subject: str) -> None:
        """Forget the future of `forbidden`: nobody waits for it any more."""
        self._publishing.pop(subject, None)

    def forbid(self, words: str) -> None:
        """Take an error of the server, which may be about a subject that is published to."""
        found = FORBIDDEN.search(words)
        forbidden = self._publishing.get(found[1]) if found else None
        if forbidden is not None and not forbidden.done():
            forbidden.set_result(words)

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
