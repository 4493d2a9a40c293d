"""Leases of messages, under which readers take them out of mailboxes.

    in the mailbox ---take---> leased ---handed over, acknowledged---> gone
           ^                     |
           +--lease over, released, answer not read whole

A message that was sent over a stream is neither: it is kept for a while, and can wait again
(`rewind`).
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from filters import Reason, Refused
from gateway.mailboxes.errors import MailboxUnknown
from gateway.mailboxes.waiting import WaitingReaders
from gateway.model.mailboxes import Mailbox, MailboxMessage
from gateway.model.subscriber_grants import Holds
from gateway.store import Store
from gateway.store import mailbox_messages as rows

UNTIL_NAMED = 86400.0
"""Seconds that a reader has messages whose arrival its next request confirms. That request asks for
the messages behind them, so that the end of this lease matters to nobody else."""
LEASE = 60.0
"""Seconds that a reader has a message while its answer is written."""
TAKEN = 4 * 2**20
"""Bytes of the messages handed over at a time, about."""
AT_A_TIME = 256
LONGEST_WAIT = 300.0
"""Seconds that a reader may wait for a message."""
LOOK_AGAIN = 5.0
"""Seconds after which a reader that waits looks again, for a lease may have ended."""
T = TypeVar("T")
_log = structlog.get_logger("dragoman.mailboxes")


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that a reader has under one lease; ``more``: others are left."""

    mailbox: Mailbox
    lease: str
    messages: tuple[MailboxMessage, ...]
    more: bool
    until: float
    """POSIX seconds."""


class MailboxLeases:
    """Leases messages to readers, and settles what they had.

    Args:
        forget: Called with the key of a mailbox that turns out to be gone.
        holds: Whether the grant of a message is still good; None: all are.
    """

    def __init__(
        self,
        store: Store,
        waiting: WaitingReaders,
        *,
        clock: Callable[[], float],
        forget: Callable[[str], None],
        holds: Holds | None = None,
    ) -> None:
        self._holds = holds
        self._store = store
        self._waiting = waiting
        self._clock = clock
        self._forget = forget
        self._exclusive: set[str] = set()
        self.expired = 0
        """Messages whose life was over before anybody took them."""

    async def take(
        self,
        mailbox: Mailbox,
        *,
        most: int | None = None,
        octets: int = TAKEN,
        wait: float = 0.0,
        lease: float = LEASE,
        name: str | None = None,
        gone: Callable[[], Awaitable[None]] | None = None,
    ) -> Batch:
        """Lease the oldest messages of *mailbox*; if there are none, wait for one.

        Args:
            most: Messages, `AT_A_TIME` at most; about *octets* of them at most.
            wait, lease: Seconds.
            name: Of the lease; a fresh one, when None.
            gone: Returns when the reader has gone: then nothing is leased.

        Raises:
            MailboxUnknown: The mailbox is gone.
            Refused: ``UNAVAILABLE``: too many wait, most of them of its owner, or the store
                cannot be read.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + min(max(0.0, wait), LONGEST_WAIT)
        leaving: asyncio.Future[None] | None = None
        try:
            while True:
                waiter = self._waiting.add(mailbox.key, mailbox.owner) if wait > 0 else None
                looks_again = False
                try:
                    batch = await self._take(mailbox, most, octets, lease, name)
                    left = end - loop.time()
                    if batch.messages or waiter is None or left <= 0 or self._waiting.sent_away:
                        return batch
                    if leaving is None and gone is not None:
                        leaving = asyncio.ensure_future(gone())
                    await asyncio.wait(
                        {waiter, leaving} if leaving is not None else {waiter},
                        timeout=min(left, LOOK_AGAIN),
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if leaving is not None and leaving.done():
                        return batch
                    looks_again = True
                finally:
                    if waiter is not None:
                        woken = waiter.done()
                        self._waiting.remove(mailbox.key, mailbox.owner, waiter)
                        if (
                            woken and not looks_again
                        ):  # Another reader may take the message for which it was woken.
                            self._waiting.wake(mailbox.key, 1)
        finally:
            if leaving is not None:
                leaving.cancel()

    async def _take(
        self, mailbox: Mailbox, most: int | None, octets: int, lease: float, name: str | None
    ) -> Batch:
        name, found, more = name or secrets.token_hex(16), list[MailboxMessage](), True
        while more and not found:
            now = self._clock()
            taken = await self._change(
                mailbox.key,
                partial(
                    rows.take,
                    key=mailbox.key,
                    lease=name,
                    most=max(1, min(AT_A_TIME if most is None else most, AT_A_TIME)),
                    octets=octets,
                    now=now,
                    until=now + lease,
                    holds=self._holds,
                ),
            )
            if taken is None:
                self._forget(mailbox.key)
                raise MailboxUnknown
            found, more, expired = taken
            self.expired += expired
        return Batch(mailbox, name, tuple(found), more, now + lease)

    @asynccontextmanager
    async def alone(self, mailbox: Mailbox) -> AsyncIterator[None]:
        """Pull from *mailbox* alone: one PullMessages at a time.

        Raises:
            Refused: ``MAILBOX_BUSY``: another reader pulls.
        """
        if mailbox.key in self._exclusive:
            raise Refused(Reason.MAILBOX_BUSY, "Somebody else is just pulling.")
        self._exclusive.add(mailbox.key)
        try:
            yield
        finally:
            self._exclusive.discard(mailbox.key)

    async def handed_over(self, batch: Batch, whole: bool) -> None:
        """Settle *batch*: acknowledge it where its answer reached the reader *whole*, else release
        it, so that its messages are the oldest again."""
        if not batch.messages:
            return
        try:
            if whole:
                await self.acknowledge(batch.mailbox, batch.lease)
            else:
                await self.release(batch.mailbox, batch.lease)
        except Refused as refused:  # Their lease ends by itself, and they come again.
            _log.warning("mailbox.lease-kept", mailbox=batch.mailbox.id, error=refused.text)

    async def arrived(self, mailbox: Mailbox, lease: str) -> None:
        """Note that the messages under *lease* have arrived. Those taken since then have not, and
        wait again. Empty: none has arrived."""

        def operation(connection: Connection) -> int:
            if lease:
                rows.acknowledge(connection, mailbox.key, lease)
            return rows.release(connection, mailbox.key, None)

        await self._change(mailbox.key, operation)

    async def acknowledge(
        self, mailbox: Mailbox, lease: str, positions: Collection[int] | None = None
    ) -> int:
        """Remove messages that were leased: *positions* of them, or all; how many were still under
        the lease."""
        return await self._change(
            mailbox.key,
            partial(rows.acknowledge, key=mailbox.key, lease=lease, positions=positions),
        )

    async def release(
        self, mailbox: Mailbox, lease: str, positions: Collection[int] | None = None
    ) -> int:
        """Give messages back; how many were still under the lease."""
        released = await self._change(
            mailbox.key, partial(rows.release, key=mailbox.key, lease=lease, positions=positions)
        )
        self._waiting.wake(mailbox.key)
        return released

    async def extend(
        self, mailbox: Mailbox, lease: str, seconds: float, positions: Collection[int] | None = None
    ) -> int:
        """Lengthen a lease to *seconds* from now; how many messages are still under it."""
        until = self._clock() + seconds
        return await self._change(
            mailbox.key,
            partial(rows.extend, key=mailbox.key, lease=lease, positions=positions, until=until),
        )

    async def sent(self, batch: Batch) -> None:
        """Note that *batch* was sent over a stream: it is not taken again, unless `rewind` brings
        it back."""
        key = batch.mailbox.key
        await self._change(key, partial(rows.hand, key=key, lease=batch.lease, now=self._clock()))

    async def rewind(self, mailbox: Mailbox, after: int) -> int:
        """Let messages behind position *after* that were sent over a stream wait again; how many.
        The reader has all up to there."""
        again = await self._change(mailbox.key, partial(rows.rewind, key=mailbox.key, after=after))
        self._waiting.wake(mailbox.key)
        return again

    def _change(self, key: str, operation: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """Run *operation*, which changes the messages of the mailbox with *key*, on the store."""
        return self._store.submit(operation, locks=(key,))
