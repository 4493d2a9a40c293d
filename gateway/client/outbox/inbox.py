"""The inbox: messages are stored before they are acknowledged, and given to functions, each in the
transaction that marks it as done."""

import logging
import ssl
import time
from collections.abc import Callable, Collection, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import delete, select

from filters import Refused
from gateway.client.outbox.arrivals import (
    FORBIDDEN,
    LATER,
    STOPPED,
    Answer,
    Headers,
    handshake,
    is_signed,
    read_arrivals,
    refusal,
    store_arrivals,
)
from gateway.client.outbox.backoff import Backoff
from gateway.client.outbox.databases import AnyDatabase, database_of
from gateway.client.outbox.handlers import Handler, Handlers
from gateway.client.outbox.outbox import Outbox
from gateway.client.outbox.replies import Replies
from gateway.client.outbox.runner import Runner
from gateway.client.outbox.subscribing import Subscriptions
from gateway.client.outbox.tables import DONE, inbox
from gateway.client.outbox.transactions import Transaction
from gateway.client.outbox.web import Listening, answer_asgi, answer_wsgi
from gateway.client.outbox.workers import DeliveryWorker
from mediation.cloudevents import read_secret

log = logging.getLogger("dragoman.outbox")

F = TypeVar("F", bound=Callable[..., Any])

REMEMBERED = timedelta(days=14)
FORGETTING = 60.0
"""Seconds from one look for messages that need no longer be remembered to the next."""
FORGOTTEN_AT_ONCE = 1000
WORKERS = 4
"""Functions that run at the same time."""


class Inbox(Runner):
    """Takes messages once, and gives each to a function, in the transaction that marks it as done.

    ::

        inbox = Inbox(engine)

        @inbox.on("orders")
        def take(message):
            message.session.add(Order(**message.json()))

        inbox.serve(8090)

    It is an application of ASGI (mounted in FastAPI, say, whose lifespan has ``async with inbox``),
    and `wsgi` is one of WSGI. Several processes may have one database.

    Args:
        database: As of `Outbox`.
        outbox: Sends what functions return as replies to requests, and names the topic on which
            this program gets replies to its own.
        gateway: The URL of a gateway at which it subscribes for the topics of its functions, and
            renews that; it then needs *address*. None: messages come straight from outboxes.
        address: The URL at which the gateway reaches it.
        secret: What comes without its signature is refused (Standard Webhooks, ``whsec_...``).
        remember: How long ids of messages are kept, so that one that comes again is known.
        workers: Functions that run at the same time; those of one key never do.
        tls: For a gateway with ``https``; what the system trusts, when None.

    Raises:
        GatewayError: *gateway* is no URL.
        StorageUnavailable: The database cannot be one of an inbox.
        ValueError: There is a gateway and no address.
    """

    def __init__(
        self,
        database: AnyDatabase,
        *,
        outbox: Outbox | None = None,
        gateway: str | None = None,
        address: str = "",
        secret: str | None = None,
        remember: timedelta = REMEMBERED,
        workers: int = WORKERS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if gateway is not None and not address:
            raise ValueError("a gateway needs the address of the inbox, such as http://host:8090/")
        super().__init__(database_of(database))
        self._handlers = Handlers()
        self._replies = Replies(outbox, self._handlers)
        self._secret = None if secret is None else read_secret(secret)
        self._remember = remember.total_seconds()
        self._workers = 1 if self._database.is_sqlite else workers
        self._subscriptions = None
        if gateway is not None:
            self._subscriptions = Subscriptions(
                self, self._database, gateway, address, self._handlers, secret, tls
            )
        self._listening: Listening | None = None

    def on(
        self,
        topic: str,
        *,
        retries: int = 5,
        backoff: float | Backoff = 1.0,
        faults: type[Exception] | tuple[type[Exception], ...] = (),
    ) -> Callable[[F], F]:
        """Give the messages of *topic* to the function that this decorates.

        It is called in the transaction that marks the message as done, on a thread, or in the event
        loop of the program where it is a coroutine function. Where it raises, what it changed is
        rolled back, and it is called again after a pause; messages of the same key wait for that,
        others do not. After so many *retries* the message is a dead letter, which stays until
        somebody retries or drops it, and the next one has its turn.

        Args:
            topic: As it was published.
            retries: Further calls after one that failed.
            backoff: Seconds before the first of them, then twice as long each time, or a `Backoff`.
            faults: Exceptions that refuse a request as `Fault` does.

        Raises:
            ValueError: The topic has a function.
        """
        pauses = backoff if isinstance(backoff, Backoff) else Backoff(backoff)
        outcomes = faults if isinstance(faults, tuple) else (faults,)

        def register(function: F) -> F:
            self._handlers.add(topic, Handler(function, retries, pauses, outcomes))
            return function

        return register

    def on_reply(self, name: str) -> Callable[[F], F]:
        """Give replies to requests whose ``on_reply`` or ``on_fault`` is *name* to the function
        that this decorates, in the transaction that takes the reply."""
        return self._replies.on(name)

    # ---------------------------------------------------------------------- messages come

    async def receive(self, headers: Headers, body: bytes) -> Answer:
        """Take a request with CloudEvents; on return its messages are stored, or nothing is."""
        taken = self._read(headers, body)
        if isinstance(taken, Answer):
            return taken
        try:
            await self.create_tables_async()
            await self._database.run(partial(store_arrivals, taken))
        except Exception as error:  # Drivers of asyncio, and Django, have errors of their own.
            return _unstored(error)
        self.wake()
        return Answer(204)

    def receive_now(self, headers: Headers, body: bytes) -> Answer:
        """As `receive`, on a thread of a program without an event loop."""
        taken = self._read(headers, body)
        if isinstance(taken, Answer):
            return taken
        try:
            self.create_tables()
            with self._database.begin() as transaction:
                store_arrivals(taken, transaction)
        except Exception as error:  # Drivers of asyncio, and Django, have errors of their own.
            return _unstored(error)
        self.wake()
        return Answer(204)

    def _read(self, headers: Headers, body: bytes) -> Answer | list[dict[str, Any]]:
        if self.has_failed:
            return STOPPED
        if self._secret is not None and not is_signed(headers, body, self._secret):
            return FORBIDDEN
        try:
            return read_arrivals(headers, body, self._handlers)
        except Refused as error:
            return refusal(error)
        except LookupError as error:
            return Answer(404, f"Nobody takes the topic {error}.")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, or follow the lifespan of a server (ASGI 3)."""
        await answer_asgi(self, scope, receive, send)

    def wsgi(self, environ: Any, start_response: Any) -> list[bytes]:
        """Answer one request (WSGI)."""
        return answer_wsgi(self, environ, start_response)

    def options(self, headers: Headers) -> Answer:
        """Answer who asks whether it may send."""
        return handshake(headers)

    def listen(self, port: int, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        """Have it listen by itself while it runs; to be said before the start."""
        self._listening = Listening(self, port, host, tls)

    def serve(self, port: int, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        """Listen and work until the process is told to end (SIGINT, SIGTERM)."""
        from gateway.client.outbox.web import until_told

        self.listen(port, host, tls)
        with self:
            until_told()

    # ---------------------------------------------------------------------- messages are given

    async def _begin(self) -> list[Coroutine[Any, Any, None]]:
        if self._listening is not None:
            await self._listening.start()
        works = [
            DeliveryWorker(self, self._database, self._handlers, self._replies, self._calls).run()
            for _ in range(self._workers)
        ]
        works.append(self._forget())
        if self._subscriptions is not None:
            works.append(self._subscriptions.keep())
        return works

    async def _finish(self) -> None:
        if self._listening is not None:
            await self._listening.stop()

    async def _forget(self) -> None:
        """Remove what need no longer be remembered, now and then."""
        while not self.stopping:
            try:
                while await self._database.run(self._forget_some):
                    pass
            except Exception as error:
                log.warning("old messages could not be removed: %s", error)
            await self.pause(FORGETTING)

    def _forget_some(self, transaction: Transaction) -> bool:
        own = inbox.c
        old = (own.done_at < time.time() - self._remember) & (own.state == DONE)
        found = transaction.rows(select(own.position).where(old).limit(FORGOTTEN_AT_ONCE))
        positions: Collection[int] = [position for (position,) in found]
        if positions:
            transaction.change(delete(inbox).where(own.position.in_(positions)))
        return len(positions) == FORGOTTEN_AT_ONCE


def _unstored(error: Exception) -> Answer:
    log.warning("messages could not be stored: %s", str(error).partition("\n")[0])
    return LATER
