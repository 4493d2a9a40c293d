"""Mailboxes: messages kept for readers that nobody can reach, until they fetch them.

A box is one thing with several doors: WS-BaseNotification's pull points, ONVIF's PullMessages,
WS-Messenger's message box, WS-MakeConnection, Server-Sent Events and JSON. It keeps whole SOAP
envelopes, in the store. Who reads leases them: they leave the box when they were handed over, and
are the oldest again when they were not.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from filters import Reason, Refused
from gateway.egress import Answer, FailureKind, Request, SendFailed, Target
from gateway.model.mailboxes import (
    Mailbox,
    MailboxBounds,
    MailboxKind,
    MailboxMessage,
    MailboxSize,
    PutResult,
)
from gateway.observing.samples import Sample, counter
from gateway.security.keys import new_key, public_id
from gateway.security.principals import Principal
from gateway.security.quotas import QuotaExceeded
from gateway.store import Store
from gateway.store import mailboxes as rows
from gateway.store.dead_letters import Selection, Slice

SCHEME = "mailbox"
"""Of the targets that are boxes of this gateway."""
LEASE = 60.0
"""Seconds that a reader has a message while its answer is written."""
TAKEN = 4 * 2**20
"""Octets of the messages handed over at a time, about."""
AT_A_TIME = 256
LONGEST_WAIT = 300.0
"""Seconds that a reader may wait for a message."""
LOOK_AGAIN = 5.0
"""Seconds after which a reader that waits looks again, for a lease may have ended."""
LOOK_AROUND = 0.5
"""Seconds from one look to the next at what other replicas have put in, while readers wait."""
REPLAY = 300.0
"""Seconds for which what was sent over a stream can be sent again."""
HOUSEKEEPING = 300.0
WAITING = 4096
"""Readers that may wait at a time."""
FULL_FOR = 5.0
"""Seconds after which a sender may try a full box again."""
T = TypeVar("T")
_log = structlog.get_logger("dragoman.mailboxes")


class MailboxUnknown(Refused):
    """There is no such box: nobody is told whether there was one."""

    def __init__(self) -> None:
        super().__init__(Reason.MAILBOX_UNKNOWN, "There is no such mailbox.")


@dataclass(frozen=True, slots=True)
class MailboxQuotas:
    """How many boxes a stranger may have, and how many there are in all; what one holds, and for
    how many seconds; and after how many without a reader it is given up."""

    owner: int = 100
    total: int = 10_000
    bounds: MailboxBounds = field(default_factory=MailboxBounds)
    age: float = 2 * 86400.0
    idle: float = 7 * 86400.0
    refuse_strangers: bool = False
    """A full box of a stranger refuses what comes, whatever its bounds say."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that a reader has under one lease; ``more``: others are left."""

    box: Mailbox
    lease: str
    messages: tuple[MailboxMessage, ...]
    more: bool
    until: float
    """POSIX seconds."""


class Mailboxes:
    """All boxes.

    Args:
        trusts: Whether an owner of boxes is trusted.
        destroyed: Told of each box that is no more, to end what fills it.
    """

    def __init__(
        self,
        store: Store,
        quotas: MailboxQuotas,
        *,
        trusts: Callable[[str], bool] = lambda _: True,
        destroyed: Callable[[Mailbox], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._clock = clock
        self._quotas = quotas
        self._trusts = trusts
        self.destroyed = destroyed
        self._boxes: dict[str, Mailbox] = {}
        self._named: dict[str, Mailbox] = {}
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._waiters = 0
        self._exclusive: set[str] = set()
        self._closing = False
        self.dropped = 0
        """Messages that went to the dead letters, for want of room or of a reader."""

    async def start(self) -> None:
        """Load what the store has.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        for box in await self._store.submit(rows.load):
            self._know(box)

    def __len__(self) -> int:
        return len(self._boxes)

    def metrics(self) -> Iterator[Sample]:
        """The messages that went to the dead letters."""
        yield counter(
            "mailbox_dropped",
            "Messages of mailboxes that found no room or no reader: they are dead letters.",
            self.dropped,
        )

    def _know(self, box: Mailbox) -> Mailbox:
        self._boxes[box.key] = box
        if box.name is not None:
            self._named[box.name] = box
        return box

    def _forget(self, key: str) -> None:
        box = self._boxes.pop(key, None)
        if box is not None and box.name is not None:
            self._named.pop(box.name, None)
        self._wake(key)

    # Boxes.

    async def make(
        self, kind: MailboxKind, principal: Principal, *, name: str | None = None
    ) -> Mailbox:
        """A new box; or the one that has this *name*, should somebody have been quicker.

        Raises:
            QuotaExceeded: There are too many.
        """
        key = new_key()
        box = Mailbox(key, public_id(key), principal.owner, kind, name)
        making = self.making(box, principal)

        def make(connection: Connection) -> Mailbox | None:
            there = rows.find(connection, name=name) if name is not None else None
            if there is None:
                making(connection)
            return there

        there = await self._store.submit(make)
        return self.made(box) if there is None else self._know(there)

    def making(self, box: Mailbox, principal: Principal) -> Callable[[Connection], None]:
        """What makes *box* in a transaction of the store, where that has to do more; when it is
        committed, `made` must be called.

        Raises:
            QuotaExceeded: (the transaction) There are too many.
        """
        quotas = self._quotas

        def make(connection: Connection) -> None:
            if not rows.make(
                connection,
                box,
                now=self._clock(),
                of_owner=None if principal.trusted else quotas.owner,
                in_all=quotas.total,
            ):
                raise QuotaExceeded(Reason.QUOTA, "There are too many mailboxes.")

        return make

    def made(self, box: Mailbox) -> Mailbox:
        """*box* is in the store."""
        _log.info("mailbox.created", mailbox=box.id, kind=box.kind.value, owner=box.owner)
        return self._know(box)

    def known(self, key: str) -> Mailbox | None:
        """The box with this key, as far as this process knows."""
        return self._boxes.get(key)

    def known_by_name(self, name: str) -> Mailbox | None:
        """The box of the consumer with this address, as far as this process knows."""
        return self._named.get(name)

    @property
    def most(self) -> int:
        """How many boxes a stranger may have."""
        return self._quotas.owner

    async def find(self, key: str | None) -> Mailbox:
        """The box with this key.

        Raises:
            MailboxUnknown: There is none.
        """
        box = self._boxes.get(key) if key else None
        if key and not (key.isascii() and key.isprintable()):  # No database need be asked.
            raise MailboxUnknown
        if key and self._store.may_be_shared:  # Another replica may have made or destroyed it.
            box = await self._store.submit(partial(rows.find, key=key))
            if box is not None:
                self._know(box)
            else:
                self._forget(key)
        if box is None:
            raise MailboxUnknown
        return box

    async def named(self, name: str) -> Mailbox | None:
        """The box of the consumer with this address."""
        box = self._named.get(name)
        if self._store.may_be_shared:
            found = await self._store.submit(partial(rows.find, name=name))
            if found is not None:
                self._know(found)
            elif box is not None:
                self._forget(box.key)
            return found
        return box

    async def learn(self, keys: Collection[str], names: Collection[str]) -> None:
        """Know those of the boxes with these keys and names that other replicas have made.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        keys = [key for key in keys if key not in self._boxes]
        names = [name for name in names if name not in self._named]
        if (keys or names) and self._store.may_be_shared:
            for box in await self._store.submit(partial(rows.load, keys=keys, names=names)):
                self._know(box)

    async def destroy(self, box: Mailbox) -> None:
        """Forget *box* with all that lies in it; what fills it ends before, for after a crash
        nothing may be left that has no box, and whatever came meanwhile ends behind it."""
        if self.destroyed is not None:
            await self.destroyed(box)
        thin = partial(rows.thin, key=box.key)
        while await self._change(box.key, thin) == rows.THINNED:
            pass  # A full box takes the store's time in slices, between which others have theirs.
        await self._change(box.key, partial(rows.destroy, key=box.key))
        _log.info("mailbox.destroyed", mailbox=box.id)
        try:
            if self.destroyed is not None:  # It may have to learn what fills it: of a known box.
                await self.destroyed(box)
        finally:
            self.gone(box.key)

    def _change(self, key: str, operation: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """Run *operation* on the store, which changes what lies in the box with *key*."""
        return self._store.submit(operation, locks=(key,))

    def gone(self, key: str) -> None:
        """The box is in the store no more."""
        self._forget(key)

    async def size(self, box: Mailbox) -> MailboxSize:
        """What lies in *box*.

        Raises:
            MailboxUnknown: It is gone.
        """
        found = await self._store.submit(partial(rows.size, key=box.key))
        if found is None:
            self._forget(box.key)
            raise MailboxUnknown
        return found

    async def listed(self, after: str, limit: int) -> list[tuple[Mailbox, MailboxSize]]:
        """The *limit* first mailboxes whose ids are greater than *after*.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        return await self._store.submit(partial(rows.listed, after=after, limit=limit))

    async def find_by_id(self, id_: str) -> tuple[Mailbox, MailboxSize] | None:
        """The mailbox with this id, which is not its key; None where there is none.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        if not (id_.isascii() and id_.isprintable()):  # No database need be asked for others.
            return None
        found = await self._store.submit(partial(rows.listed, id_=id_, limit=1))
        return found[0] if found else None

    # What comes in.

    async def put(self, box: Mailbox, envelopes: Sequence[tuple[str | None, bytes]]) -> None:
        """Keep *envelopes*, each with its message id, in *box*; on return they are durable. One
        that came before, and is still there, is kept once.

        Raises:
            MailboxUnknown: It is gone.
            Refused: ``MAILBOX_FULL``.
            StoreUnavailable: They may be there, or not.
        """
        now, bounds = self._clock(), self._bounds(box)
        outcome, dropped = await self._change(
            box.key, partial(rows.put, key=box.key, envelopes=envelopes, bounds=bounds, now=now)
        )
        if outcome is PutResult.UNKNOWN:
            self._forget(box.key)
            raise MailboxUnknown
        if outcome is PutResult.FULL:
            refused = Refused(Reason.MAILBOX_FULL, "The mailbox is full.")
            refused.retry_after = FULL_FOR
            raise refused
        if dropped:
            self.dropped += dropped
            _log.warning("mailbox.overflow", mailbox=box.id, dropped=dropped)
        self._wake(box.key, len(envelopes))

    def _bounds(self, box: Mailbox) -> MailboxBounds:
        bounds = self._quotas.bounds
        if self._quotas.refuse_strangers and not self._trusts(box.owner):
            return replace(bounds, refuse=True)
        return bounds

    def _wake(self, key: str, number: int | None = None) -> None:
        """Let *number* of those who wait look, or all: more than there are messages would find
        nothing, and keep the store busy."""
        waiting = self._waiting.get(key, set())
        for waiter in list(islice(waiting, number)):
            waiting.discard(waiter)
            if not waiter.done():
                waiter.set_result(None)
        if not waiting:
            self._waiting.pop(key, None)

    # What goes out.

    async def take(
        self,
        box: Mailbox,
        *,
        most: int | None = None,
        octets: int = TAKEN,
        wait: float = 0.0,
        lease: float = LEASE,
        name: str | None = None,
        gone: Callable[[], Awaitable[None]] | None = None,
    ) -> Batch:
        """Lease the oldest messages of *box*; if there are none, wait for one.

        Args:
            most: Messages, `AT_A_TIME` at most; about *octets* of them at most.
            wait, lease: Seconds.
            name: Of the lease; a fresh one, when None.
            gone: Returns when the reader has gone: then nothing is leased.

        Raises:
            MailboxUnknown: The box is gone.
            Refused: ``UNAVAILABLE``: too many wait, or the store cannot be read.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + min(max(0.0, wait), LONGEST_WAIT)
        leaving: asyncio.Future[None] | None = None
        try:
            while True:
                waiter = self._wait_for(box.key) if wait > 0 else None
                looks_again = False
                try:
                    batch = await self._take(box, most, octets, lease, name)
                    left = end - loop.time()
                    if batch.messages or waiter is None or left <= 0 or self._closing:
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
                        self._wait_no_more(box.key, waiter)
                        if woken and not looks_again:  # Another may have what it was woken for.
                            self._wake(box.key, 1)
        finally:
            if leaving is not None:
                leaving.cancel()

    def _wait_for(self, key: str) -> asyncio.Future[None]:
        if self._waiters >= WAITING:
            raise Refused(Reason.UNAVAILABLE, "Too many readers wait.")
        self._waiters += 1
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(waiter)
        return waiter

    def _wait_no_more(self, key: str, waiter: asyncio.Future[None]) -> None:
        self._waiters -= 1
        waiter.cancel()
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(waiter)
            if not waiting:
                del self._waiting[key]

    async def _take(
        self, box: Mailbox, most: int | None, octets: int, lease: float, name: str | None
    ) -> Batch:
        name, now = name or secrets.token_hex(16), self._clock()
        taken = await self._change(
            box.key,
            partial(
                rows.take,
                key=box.key,
                lease=name,
                most=max(1, min(AT_A_TIME if most is None else most, AT_A_TIME)),
                octets=octets,
                now=now,
                until=now + lease,
            ),
        )
        if taken is None:
            self._forget(box.key)
            raise MailboxUnknown
        return Batch(box, name, tuple(taken[0]), taken[1], now + lease)

    @asynccontextmanager
    async def alone(self, box: Mailbox) -> AsyncIterator[None]:
        """Be the only one who takes from *box* in this way.

        Raises:
            Refused: ``MAILBOX_BUSY``: somebody is.
        """
        if box.key in self._exclusive:
            raise Refused(Reason.MAILBOX_BUSY, "Somebody else is just pulling.")
        self._exclusive.add(box.key)
        try:
            yield
        finally:
            self._exclusive.discard(box.key)

    async def handed_over(self, batch: Batch, whole: bool) -> None:
        """The answer with *batch* reached its reader, or did not: then its messages are the oldest
        again."""
        if not batch.messages:
            return
        try:
            if whole:
                await self.acknowledge(batch.box, batch.lease)
            else:
                await self.release(batch.box, batch.lease)
        except Refused as refused:  # Their lease ends by itself, and they come again.
            _log.warning("mailbox.lease-kept", mailbox=batch.box.id, error=refused.text)

    async def acknowledge(
        self, box: Mailbox, lease: str, positions: Collection[int] | None = None
    ) -> int:
        """Remove messages that were leased: *positions* of them, or all; how many were still under
        the lease."""
        return await self._change(
            box.key, partial(rows.acknowledge, key=box.key, lease=lease, positions=positions)
        )

    async def release(
        self, box: Mailbox, lease: str, positions: Collection[int] | None = None
    ) -> int:
        """Give messages back; how many were still under the lease."""
        released = await self._change(
            box.key, partial(rows.release, key=box.key, lease=lease, positions=positions)
        )
        self._wake(box.key)
        return released

    async def extend(
        self, box: Mailbox, lease: str, seconds: float, positions: Collection[int] | None = None
    ) -> int:
        """Lengthen a lease to *seconds* from now; how many messages are still under it."""
        until = self._clock() + seconds
        return await self._change(
            box.key,
            partial(rows.extend, key=box.key, lease=lease, positions=positions, until=until),
        )

    async def sent(self, batch: Batch) -> None:
        """*batch* was sent over a stream: it waits no more, but `rewind` can bring it back."""
        key = batch.box.key
        await self._change(key, partial(rows.hand, key=key, lease=batch.lease, now=self._clock()))

    async def redrive(self, selection: Selection, *, after: int, upto: int) -> Slice:
        """Put a slice of dead letters back into their boxes."""
        redrive = partial(
            rows.redrive, selection=selection, now=self._clock(), after=after, upto=upto
        )
        slice_, again = await self._store.submit(redrive)
        for key in again:
            self._wake(key)
        return slice_

    async def rewind(self, box: Mailbox, after: int) -> int:
        """The reader of a stream has all up to position *after*, and wants the rest again; how
        many messages that are."""
        again = await self._change(box.key, partial(rows.rewind, key=box.key, after=after))
        self._wake(box.key)
        return again

    # Housekeeping.

    async def run(self, keeps_house: Callable[[], bool] = lambda: True) -> None:
        """Clear what is too old, for ever; where several share the store, one does."""
        while True:
            with contextlib.suppress(Refused):
                if keeps_house():
                    await self.clear()
                await self._forget_destroyed()
            await asyncio.sleep(HOUSEKEEPING)

    async def _forget_destroyed(self) -> None:
        """Forget boxes that other replicas have destroyed, and nobody asked for here since."""
        if self._store.may_be_shared:
            known = set(self._boxes)
            there = await self._store.submit(rows.load)
            for key in known - {box.key for box in there}:
                self._forget(key)

    async def clear(self) -> None:
        """Clear what is too old: messages that nobody took, and boxes that nobody opened."""
        now = self._clock()
        while True:
            buried = await self._store.submit(
                partial(rows.sweep, now=now, oldest=now - self._quotas.age, handed=now - REPLAY)
            )
            self.dropped += buried
            if buried < rows.AT_A_TIME:
                break
        for key in await self._store.submit(partial(rows.unused, before=now - self._quotas.idle)):
            with contextlib.suppress(MailboxUnknown):
                await self.destroy(await self.find(key))

    async def look_around(self) -> None:
        """Wake those who wait at boxes into which other replicas have put something, for ever."""
        while True:
            await asyncio.sleep(LOOK_AROUND)
            if self._waiting:
                with contextlib.suppress(Refused):
                    look = partial(rows.ready, keys=list(self._waiting), now=self._clock())
                    for key in await self._store.submit(look):
                        self._wake(key)

    def close(self) -> None:
        """Send away who waits: the gateway stops."""
        self._closing = True
        for key in list(self._waiting):
            self._wake(key)


def mailbox_target(box: Mailbox, address: str) -> Target:
    """What the delivery sends to, for a consumer with *address* that is *box*."""
    return Target(SCHEME, box.key, 0, "/", address)


class MailboxTransport:
    """The `Transport` to our own boxes: what is answered with 202 is in the store. They keep
    envelopes alone."""

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes

    async def send(self, request: Request) -> Answer:
        """Put the message into the box that is the target's host.

        Raises:
            SendFailed: The store cannot take it now.
        """
        try:
            key = request.target.host
            box = self._mailboxes.known(key) or await self._mailboxes.find(key)
            await self._mailboxes.put(box, [(request.message_id, request.body)])
        except MailboxUnknown:
            return Answer(410)
        except Refused as refused:
            if refused.reason is Reason.MAILBOX_FULL:
                return Answer(503, headers={"retry-after": str(round(FULL_FOR))})
            raise SendFailed(FailureKind.RESET) from refused
        return Answer(202, dropped=len(request.attachments))

    async def close(self) -> None:
        """Nothing is kept open."""
