"""A consumer of notifications that come in sequences (WS-ReliableMessaging): each once, in order,
however often the gateway sends it."""

import asyncio
import contextlib
import logging
import random
import time

from aiohttp import web

from filters import Refused
from gateway.client.consumer import Consumer, ReceivedMessage, later
from gateway.client.messaging import fresh_id
from gateway.client.reliable.endpoint_base import PATIENT
from gateway.reliability.endpoint import Endpoint
from gateway.reliability.party import Offers, Party
from gateway.reliability.storage import StorageUnavailable, Transaction
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.values import Delivered, Notice
from mediation.client import read_received

END = 2.0
"""Seconds in which the gateway may end the sequence politely when the consumer leaves."""
_log = logging.getLogger("dragoman.consumer")


class SequenceConsumer(Consumer):
    """As `Consumer`, and the destination of sequences.

    What comes in a sequence is acknowledged on the connection when it is in the queue; what it
    knows of sequences it keeps in memory. What comes outside of any, as SubscriptionEnd does, is
    taken as `Consumer` takes it.
    """

    _endpoint: Endpoint
    _store: MemoryStore
    _ended: asyncio.Event
    """Set while all sequences have ended."""

    async def __aenter__(self) -> "SequenceConsumer":
        self._store = MemoryStore()
        party = Party(
            self._store,
            fresh_id,
            random.random,
            policy=PATIENT,
            applications={"": self._deliver},
            offers=Offers.DECLINE,
            allows=lambda _: False,
            notify=_tell,
        )
        self._endpoint = Endpoint(party)
        self._ended = asyncio.Event()
        self._ended.set()
        await super().__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Wait a moment for the gateway to end the sequence, where there is one."""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END):
                    await self._ended.wait()
        finally:
            await super().__aexit__(*error)

    async def receive(self) -> ReceivedMessage:
        message = await super().receive()
        self._endpoint.due(time.time())  # Something may have had no place in the queue.
        return message

    async def _take(self, request: web.Request, octets: bytes) -> web.Response:
        if self._queue.full():
            return later()
        try:
            reply = self._endpoint.received(octets, time.time())
            self._endpoint.due(time.time())
        except StorageUnavailable:
            return later()
        with self._store.transaction() as tx:
            (self._ended.clear if tx.incoming.count() else self._ended.set)()
        if reply.unreliable is not None:
            return await super()._take(request, octets)
        answer = reply.answer
        if answer is None:
            return web.Response(status=202)
        status = 500 if reply.fault else 200
        return web.Response(status=status, body=answer.envelope, headers=dict(answer.http_headers))

    def _deliver(self, tx: Transaction, delivered: Delivered) -> None:
        try:
            received = read_received(delivered.envelope)
        except Refused as refused:
            _log.warning("message %s is none: %s", delivered.number, refused.text)
            return  # It would be none the next time, and others wait behind it.
        self._queue.put_nowait(ReceivedMessage.of(received, delivered.envelope))


def _tell(notice: Notice) -> None:
    _log.warning("%s: %s", notice.kind.value, notice.text)
