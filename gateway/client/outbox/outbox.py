"""The outbox: a program stores messages in the transaction that changes its data, and they are sent
until they are taken."""

import ssl
import time
from collections.abc import Coroutine, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from gateway.client.calling import Caller, endpoint_url
from gateway.client.outbox.databases import AnyDatabase, database_of
from gateway.client.outbox.records import Moment, outgoing_row
from gateway.client.outbox.relay import Destination, Relay
from gateway.client.outbox.runner import Runner
from gateway.client.outbox.tables import WAITING, outbox, requests
from gateway.client.outbox.transaction_enlistment import store_in
from gateway.client.outbox.transactions import Transaction
from mediation.cloudevents import read_secret

EVENTS = "/events"
"""Where a gateway takes CloudEvents."""
TIMEOUT = 30.0


class Outbox(Runner):
    """Stores messages with what a program changes, and sends them while it runs.

    ::

        outbox = Outbox(engine, to="http://127.0.0.1:8080")
        with outbox, Session(engine) as session, session.begin():
            session.add(Order(item="tea"))
            outbox.publish("orders", {"item": "tea"}, session)

    Its tables are made when it starts, or by `create_tables`. Programs that only publish need not
    start it: another process with the same database may send.

    Args:
        database: An `Engine` or an ``AsyncEngine`` of SQLAlchemy, a URL, or a ``DjangoDatabase``.
        to: The URL of a gateway, or of an inbox; or one for each topic, where ``"*"`` stands for
            all others.
        source: The ``source`` of its CloudEvents. None: one that is made with the tables. It is
            part of the identity of each message, so that two programs may use the same ids.
        reply_to: The topic on which this program gets replies to `request`.
        secret: Signs what is sent, as Standard Webhooks has it (``whsec_...``).
        tls: For ``https``; what the system trusts, when None.
        timeout: Seconds for a whole exchange over HTTP.

    Raises:
        GatewayError: *to* is no URL.
        StorageUnavailable: The database cannot be one of an outbox.
    """

    def __init__(
        self,
        database: AnyDatabase,
        to: str | Mapping[str, str],
        *,
        source: str | None = None,
        reply_to: str = "",
        secret: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        super().__init__(database_of(database))
        self._destinations = _destinations(to)
        self._named = source
        self.reply_to = reply_to
        self._secret = None if secret is None else read_secret(secret)
        self._tls = tls
        self._timeout = timeout
        self._caller: Caller | None = None

    def publish(
        self,
        topic: str,
        payload: Any,
        session: Any = None,
        *,
        id: str | None = None,
        key: str = "",
        type: str | None = None,
        content_type: str = "",
        delay: timedelta | float = 0.0,
        expires: Moment | None = None,
        priority: int | None = None,
        attributes: Mapping[str, str | int | bool] | None = None,
    ) -> str:
        """Store a message in a transaction; it goes when that is committed.

        Args:
            topic: Such as ``orders`` or ``orders/new``.
            payload: JSON (dictionaries, lists, dataclasses, models of pydantic), XML (an element of
                lxml, or text or bytes that begin with ``<``), text, or bytes with *content_type*.
            session: The transaction: a `Session` or an ``AsyncSession`` (which inserts it when it
                is committed), a `Connection`, or ``transaction.manager`` of that package. None: the
                transaction of Django.
            id: Makes it idempotent: a message with an id that was published before is left out.
            key: Messages of a topic with the same key come in their order; also those without one.
            type: The ``type`` of its CloudEvent; the topic, where it is None.
            delay: Seconds before it is sent.
            expires: A time, or seconds or a length from now, from which on nobody gets it.
            priority: 0 to 9, for queues of a broker that are ordered by it; elsewhere it is carried
                as an attribute.
            attributes: Further ones of its CloudEvent: names of lower-case letters and digits.

        Returns:
            Its id.

        Raises:
            ValueError: It cannot be sent. Nothing is stored.
            TypeError: *payload* becomes no body, or *session* is no transaction.
        """
        row = self.row(
            topic, payload, id=id, key=key, type=type, content_type=content_type, delay=delay,
            expires=expires, priority=priority, attributes=attributes,
        )  # fmt: skip
        store_in(self._database, session, _Insert(row), self.wake)
        return str(row["id"])

    def request(
        self,
        topic: str,
        payload: Any,
        session: Any = None,
        *,
        on_reply: str,
        on_fault: str = "",
        attributes: Mapping[str, str | int | bool] | None = None,
        **options: Any,
    ) -> str:
        """As `publish`, of a message that is answered: its reply, or its fault, comes to the inbox
        of this program, once, also after a restart.

        Args:
            on_reply, on_fault: The names of functions that ``@inbox.on_reply(name)`` registers. A
                fault goes to *on_reply* where *on_fault* is empty.

        Raises:
            ValueError: As `publish`; or the outbox has no *reply_to*.
        """
        if not self.reply_to:
            raise ValueError(
                "who asks needs a topic for replies: Outbox(..., reply_to='replies/shop')"
            )
        every = {**(attributes or {}), "replyto": self.reply_to}
        row = self.row(topic, payload, attributes=every, **options)
        asked = {
            "digest": row["digest"],
            "id": row["id"],
            "on_reply": on_reply,
            "on_fault": on_fault or on_reply,
            "created_at": row["created_at"],
        }
        store_in(self._database, session, _Insert(row, asked), self.wake)
        return str(row["id"])

    def waiting(self) -> int:
        """Count the messages that are not taken yet, without dead ones."""
        with self._database.begin() as transaction:
            return _count(transaction)

    def drain(self, seconds: float) -> bool:
        """Wait until nothing waits; it must run, here or in another process.

        Returns:
            Whether that was so within *seconds*.
        """
        end = time.monotonic() + seconds
        while self.waiting():
            if time.monotonic() >= end:
                return False
            time.sleep(0.05)
        return True

    def row(self, topic: str, payload: Any, **options: Any) -> dict[str, Any]:
        """The row of a message: see `publish`."""
        return outgoing_row(topic, payload, **options)

    async def _begin(self) -> list[Coroutine[Any, Any, None]]:
        source = self._named or self._source
        self._caller = await Caller(timeout=self._timeout, tls=self._tls).__aenter__()
        return [
            Relay(self, self._database, self._caller, to, source, self._secret).run()
            for to in self._destinations
        ]

    async def _finish(self) -> None:
        if self._caller is not None:
            await self._caller.__aexit__()


def _count(transaction: Transaction) -> int:
    own = outbox.c
    [[found]] = transaction.rows(
        select(func.count()).select_from(outbox).where(own.state == WAITING)
    )
    return int(found)


class _Insert:
    """Inserts the row of a message, and that of a request."""

    def __init__(self, row: dict[str, Any], asked: dict[str, Any] | None = None) -> None:
        self._row = row
        self._asked = asked

    def __call__(self, transaction: Transaction) -> None:
        added = transaction.insert_new(outbox, [self._row])
        if added and self._asked is not None:
            transaction.insert_new(requests, [self._asked])


def _destinations(to: str | Mapping[str, str]) -> tuple[Destination, ...]:
    if isinstance(to, str):
        return (Destination(endpoint_url(to, path=EVENTS)),)
    named = {topic: url for topic, url in to.items() if topic != "*"}
    topics: dict[str, list[str]] = {}
    for topic, url in named.items():
        topics.setdefault(endpoint_url(url, path=EVENTS), []).append(topic)
    found = [Destination(url, tuple(some)) for url, some in topics.items()]
    if "*" in to:
        found.append(Destination(endpoint_url(to["*"], path=EVENTS), None, tuple(named)))
    return tuple(found)
