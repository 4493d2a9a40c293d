"""Streams of mailboxes: the messages of a mailbox as Server-Sent Events, one after the other over
one response.

    event     what it says
    --------  ------------------------------------------------------------------------------
    message   a message as JSON; its id is its position in the mailbox
    replaced  another stream of the mailbox has begun, and this one ends: come again in a day

A message leaves the mailbox when the peer's system has acknowledged its bytes (of TCP). For some
minutes it can then be had again, by a reader that comes with the id of an earlier one. A message
that was not acknowledged is the oldest again.
"""

import asyncio
import contextlib
import functools
from collections import Counter
from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from adapters import AdapterUnavailable
from filters import Refused
from gateway.http import until_gone, was_delivered
from gateway.mailboxes.leases import Batch
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.model.mailboxes import Mailbox
from gateway.parsing import Parsing
from gateway.security.shares import who_makes_room
from gateway.web.server_sent_events import (
    HEARTBEAT,
    Awaited,
    EventWriter,
    until_first,
    write_event,
    write_retry,
)
from gateway.web.views.mailbox_messages import MessageView, mailbox_message_views

STREAMS = 1024
"""Streams that may be open at a time. Where all places are taken, one of the owner of mailboxes,
and of the tenant, with the most streams ends for another."""
TAKEN_IN = 30.0
"""Seconds that a peer has to acknowledge a batch of messages."""
LEASE = 120.0
"""Seconds: longer than a batch takes to be read, written and acknowledged."""
AT_A_TIME, BYTES = 64, 256 * 1024
ENDS = 60.0
"""Seconds that the stream before has to end: its connection's deadlines are shorter."""
_DAY = 86_400_000
_REPLACED = write_event("another stream of this mailbox has begun", event="replaced")
Visit = Callable[[Mailbox], Awaitable[None]]


class Streams:
    """All streams of this process. A mailbox has one: two would each get half of the messages.

    A new one takes over: after a broken connection the former looks alive for minutes, and an
    EventSource that is refused never comes again.

    Args:
        replica: The name of this gateway among those that share the store, the same after a
            restart.
        draining: Whether the gateway stops.
        visited: Called now and then with a mailbox that has a reader.
    """

    def __init__(
        self,
        mailboxes: Mailboxes,
        parsing: Parsing,
        *,
        replica: str,
        draining: Callable[[], bool],
        visited: Visit,
    ) -> None:
        self.mailboxes = mailboxes
        self.parsing = parsing
        self.replica = replica
        self.draining = draining
        self.visited = visited
        self._of: dict[str, EventStream] = {}

    def open(self, mailbox: Mailbox, after: int | None, refused: Awaited) -> "EventStream":
        """The response that streams *mailbox*, to a reader who has all up to position *after*;
        *refused* returns when that reader may have no more.

        Raises:
            AdapterUnavailable: There are too many, and nobody has more than the mailbox's owner.
        """
        if len(self._of) >= STREAMS and mailbox.key not in self._of:
            self._make_room(mailbox.owner)
        return EventStream(self, mailbox, after, refused)

    def _make_room(self, owner: str) -> None:
        """End a stream of whoever has the most.

        Raises:
            AdapterUnavailable: That is *owner*.
        """
        staying = [one for one in self._of.values() if not one.displaced.is_set()]
        if len(staying) < STREAMS:
            return  # One ends just now.
        numbers = Counter(one.mailbox.owner for one in staying)
        numbers[owner] += 1
        most = who_makes_room(numbers, owner)
        if most == owner:
            raise AdapterUnavailable("Too many streams are open.")
        next(one for one in staying if one.mailbox.owner == most).displaced.set()

    def enter(self, stream: "EventStream") -> "EventStream | None":
        """Register *stream*; the stream of the same mailbox that it replaces."""
        former = self._of.get(stream.mailbox.key)
        self._of[stream.mailbox.key] = stream
        return former

    def leave(self, stream: "EventStream") -> None:
        """Note that *stream* has ended."""
        if self._of.get(stream.mailbox.key) is stream:
            del self._of[stream.mailbox.key]


class EventStream(Response):
    """A response without an end of its own."""

    media_type = "text/event-stream"

    def __init__(
        self, streams: Streams, mailbox: Mailbox, after: int | None, refused: Awaited
    ) -> None:
        super().__init__()
        self._refused = refused
        self.mailbox = mailbox
        self._streams = streams
        self._mailboxes = streams.mailboxes
        self._after = after
        self._lease = f"stream-{mailbox.id}-{streams.replica}"
        """One name for all streams of the mailbox at this gateway: the next one knows what this one
        left behind, also where a crash is between them."""
        self._replaced = asyncio.Event()
        self.displaced = asyncio.Event()
        """Set when it is to end for one of somebody else: its reader may come again."""
        self._ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = EventWriter(send)
        former = self._streams.enter(self)
        leaving = asyncio.ensure_future(self._wait_to_leave(receive))
        try:
            await writer.start()
            if former is not None:
                former._replaced.set()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ENDS):
                        await former._ended.wait()
            with contextlib.suppress(Refused):  # The mailbox is gone or unreadable: come again.
                await self._resume()
                await self._pour(scope, writer, leaving)
            if self._replaced.is_set():
                await writer.write(write_retry(_DAY) + _REPLACED)
            await writer.end()
        finally:
            leaving.cancel()
            self._streams.leave(self)
            self._ended.set()

    async def _wait_to_leave(self, receive: Receive) -> None:
        """Return when the peer has gone, or may have no more, or another stream has begun or needs
        the place."""
        await until_first(
            functools.partial(until_gone, receive),
            self._wait_to_be_replaced,
            self._wait_to_be_displaced,
            self._refused,
        )

    async def _wait_to_be_replaced(self) -> None:
        await self._replaced.wait()

    async def _wait_to_be_displaced(self) -> None:
        await self.displaced.wait()

    async def _resume(self) -> None:
        """Take up what earlier streams of the mailbox left: sent and lost, or never sent."""
        left = Batch(self.mailbox, self._lease, (), False, 0.0)
        if self._after is None:
            await self._mailboxes.leases.release(self.mailbox, self._lease)
        else:
            await self._mailboxes.leases.sent(left)
            await self._mailboxes.leases.rewind(self.mailbox, self._after)

    async def _pour(
        self, scope: Scope, writer: EventWriter, leaving: "asyncio.Future[None]"
    ) -> None:
        while not leaving.done() and not self._streams.draining():
            await self._streams.visited(self.mailbox)
            batch = await self._mailboxes.leases.take(
                self.mailbox,
                most=AT_A_TIME,
                octets=BYTES,
                wait=HEARTBEAT,
                lease=LEASE,
                name=self._lease,
                gone=functools.partial(asyncio.shield, leaving),
            )
            if not batch.messages:
                await writer.beat()
                continue
            delivered = False
            try:
                messages = await mailbox_message_views(
                    batch.messages, self._streams.parsing, owner=self.mailbox.owner
                )
                await writer.write(b"".join(map(_event, messages)))
                delivered = await self._was_delivered(scope, leaving)
            finally:
                if not delivered:
                    await self._mailboxes.leases.release(self.mailbox, batch.lease)
            if not delivered:
                return
            await self._mailboxes.leases.sent(batch)

    async def _was_delivered(self, scope: Scope, leaving: "asyncio.Future[None]") -> bool:
        """Whether the peer has all. A stream that is being replaced does not wait for that."""
        waiting = asyncio.ensure_future(was_delivered(scope, TAKEN_IN))
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done() and not self._replaced.is_set():
            await asyncio.wait((waiting,), timeout=TAKEN_IN)
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return False


def _event(message: MessageView) -> bytes:
    return write_event(message.model_dump_json(), event="message", id=message.id)
