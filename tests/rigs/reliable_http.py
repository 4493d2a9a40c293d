"""An end of reliable messaging over HTTP that is a client with an address of its own, at which
acknowledgements and replies come."""

import asyncio
import random
import time
from typing import Any, Self

from gateway.client.reliable.endpoint_base import new_id
from gateway.client.reliable.http_requests import Intake
from gateway.client.reliable.workers import Workers
from gateway.reliability.endpoint import Endpoint
from gateway.reliability.party import Channel, Party
from gateway.reliability.records import OutgoingSequence, Wire
from gateway.reliability.source import Message
from gateway.reliability.storage import Transaction
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.values import Answer, Delivered, Notice
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging.application import body_of
from mediation.reliable_messaging.policy import Policy


class CallableClient:
    """An ASGI app; messages go from *address*, at which the app is reached.

    Attributes:
        got: The bodies of replies.
        notices: What people were told.
    """

    def __init__(self, address: str, policy: Policy) -> None:
        self.got: list[bytes] = []
        self.notices: list[Notice] = []
        self._address = address
        self._store = MemoryStore()
        self._endpoint = Endpoint(
            Party(
                self._store,
                new_id,
                random.random,
                address=address,
                policy=policy,
                applications={"": self._take},
                notify=self.notices.append,
            )
        )
        self._workers = Workers(self._endpoint, timeout=10)
        self._intake = Intake(self._workers, hold=1)

    def _take(self, transaction: Transaction, delivered: Delivered) -> Answer | None:
        self.got.append(body_of(delivered.envelope))
        return None

    def channel(self, target: str, wire: Wire, *, offers: bool) -> Channel:
        """The way to *target*."""
        to, back = (EndpointReference(each, wire.wsa) for each in (target, self._address))
        return Channel(to, wire, back, offers)

    def send(self, channel: Channel, action: str, body: bytes) -> None:
        """Send a message; a request where the channel offers a sequence for replies."""
        message = Message(action, body, wants_reply=channel.offers)
        with self._store.transaction() as tx:
            self._endpoint.send(tx, time.time(), "", channel, message)
        self._workers.wake()

    def end(self, channel: Channel) -> None:
        """Let no message more come."""
        with self._store.transaction() as tx:
            self._endpoint.end(tx, time.time(), "", channel)
        self._workers.wake()

    @property
    def sequences(self) -> list[OutgoingSequence]:
        with self._store.look() as look:
            return look.outgoing_page("", 100)

    def __enter__(self) -> Self:
        self._workers.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.stop()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        octets, more = b"", True
        while more:
            message = await receive()
            octets += message.get("body", b"")
            more = message.get("more_body", False)
        taking = self._intake.take(octets, content_type="", owner=None, service="")
        reply = await asyncio.wrap_future(self._workers.submit(taking))
        headers = [(k.lower().encode(), v.encode()) for k, v in reply.headers]
        headers.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})
