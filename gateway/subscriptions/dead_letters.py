"""Dead letters for operators, who count, redrive and purge a selection of them. All goes slice by
slice, so that deliveries and other work of the store go on in between. Bounds are kept here,
too."""

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import structlog

from filters import Event, Expression, Filter, Reason, Refused, compile, parse_clark
from filters.dialects import TOPIC_FULL
from gateway.delivery import AUTHORS, Entry, WorkSharing, author, next_position
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.model.dead_letter_reasons import OF_MAILBOXES, DeadLetter
from gateway.store import Store, dead_letter_counts
from gateway.store import dead_letters as rows
from gateway.store.dead_letters import SLICE, Selection, Slice
from gateway.store.owner_bytes import OwnerBytes
from gateway.store.replicas import HOUSE
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import Notification
from mediation.notification.document_metadata import minimal_form
from mediation.rendering import Recipient, render

LOOK = 2.0
"""Seconds from one look at the bytes of dead letters to the next."""
REMEMBERED = 10_000
"""Topics of dead letters whose verdict is remembered while a selection is worked on."""
_CURSOR = re.compile(r"([smu])([0-9]{1,18})-([0-9]{1,18})")
PublishAgain = Callable[[Notification], Awaitable[bool]]
_log = structlog.get_logger("dragoman.deadletters")


@dataclass(frozen=True, slots=True)
class Affected:
    """The number of letters chosen, by reason; ``next`` says where to go on, None at the end."""

    reasons: Counter[str]
    next: str | None

    @property
    def number(self) -> int:
        return self.reasons.total()


@dataclass(frozen=True, slots=True)
class Shown:
    """A dead letter with its message. ``payload`` is None for one of a mailbox, which is an
    envelope; ``envelope`` is None where the subscription, in whose dialect it would be, has
    ended, or where it cannot be written."""

    letter: DeadLetter
    action: str | None
    attachments: int
    payload: bytes | None
    envelope: bytes | None


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Behind which number to go on, up to which: what dies again meanwhile has a higher one. First
    the letters of subscriptions (s), then, where they are told apart, those of mailboxes (m), and
    those that were set aside when they came, and are for nobody yet (u)."""

    part: str
    after: int
    upto: int

    def __str__(self) -> str:
        return f"{self.part}{self.after}-{self.upto}"


def covers(expression: str, namespaces: dict[str, str]) -> Callable[[str | None], bool]:
    """True if *expression*, a topic expression of the Full dialect, covers the topic of a dead
    letter, given in Clark notation.

    Raises:
        FilterError: It is not a topic expression.
    """
    wanted = Expression(expression, TOPIC_FULL, tuple(sorted(namespaces.items())))
    compiled = compile(Filter(topics=(wanted,)))
    known: dict[str | None, bool] = {}

    def is_covered(topic: str | None) -> bool:
        verdict = known.get(topic)
        if verdict is None:
            if len(known) >= REMEMBERED:
                known.clear()
            event = Event(b"<a/>", topic=parse_clark(topic) if topic else None)
            verdict = known[topic] = compiled.matches(event)
        return verdict

    return is_covered


class DeadLetters:
    """Counts, redrives and purges.

    Args:
        producer: The gateway's own address, for events without a producer reference.
        publish_again: Publishes a message that was set aside, if that is possible now.
    """

    def __init__(
        self,
        store: Store,
        table: SubscriptionTable,
        replication: Replication,
        mailboxes: Mailboxes,
        sharing: WorkSharing,
        *,
        producer: str,
        publish_again: PublishAgain,
        owner_bytes: OwnerBytes | None = None,
        shrink: Callable[[Iterable[Entry], int], None] = lambda _, __: None,
    ) -> None:
        self._shrink = shrink
        self._store = store
        self._owner_bytes = owner_bytes
        self._table = table
        self._replication = replication
        self._mailboxes = mailboxes
        self._sharing = sharing
        self._producer = producer
        self._publish_again = publish_again
        self._position = 0
        """The last position that was given to a letter."""

    async def selected(
        self, selection: Selection, *, after: int, limit: int
    ) -> tuple[list[DeadLetter], int | None]:
        """The *limit* first dead letters of *selection* behind number *after*, and the number to go
        on behind; None at the end.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        return await self._store.submit(
            partial(rows.selected, selection=selection, after=after, limit=limit)
        )

    async def show(self, number: int) -> Shown | None:
        """The dead letter with this number; None if it is not there."""
        found = await self._store.submit(partial(rows.find, number=number))
        if found is None:
            return None
        letter, notification = found
        if letter.death.reason.value in OF_MAILBOXES:
            return Shown(letter, None, 0, None, notification.payload)
        entry = self._table.by_id(letter.death.subscription)
        envelope = None
        if entry is not None:  # In a thread: it may take work for each element.
            envelope = await asyncio.to_thread(
                self._envelope, entry.recipient, notification, letter.death.delivery_id
            )
        return Shown(
            letter,
            notification.action,
            len(notification.attachments),
            notification.payload,
            envelope,
        )

    def _envelope(
        self, recipient: Recipient, notification: Notification, message_id: str
    ) -> bytes | None:
        """The envelope that *recipient* would get; None if it cannot be written."""
        # It may have died because it cannot be written.
        with contextlib.suppress(Refused, ValueError):
            sent = minimal_form(notification) if recipient.minimal else notification
            return render(sent, recipient.shape, self._producer).fill(recipient, message_id)
        return None

    async def purge(
        self, selection: Selection, *, limit: int | None = None, after: str | None = None
    ) -> Affected:
        """Forget letters of *selection*; they stay counted.

        Args:
            limit: How many at most, about; all, when None.
            after: Where a former call ended.
        """
        return await self._all(self._purge, selection, limit, after)

    async def redrive(
        self, selection: Selection, *, limit: int | None = None, after: str | None = None
    ) -> Affected:
        """Let letters of *selection* wait again, those of subscriptions and mailboxes that there
        still are, and publish those set aside that can be read now."""
        await self._replication.refresh()
        work = partial(self._redrive, at_once=min(SLICE, limit or SLICE))
        return await self._all(work, selection, limit, after)

    async def count(
        self,
        selection: Selection,
        *,
        redrivable: bool,
        limit: int | None = None,
        after: str | None = None,
    ) -> Affected:
        """Count what `purge` would forget, or, with *redrivable*, what `redrive` would redrive."""
        return await self._all(partial(self._count, redrivable=redrivable), selection, limit, after)

    async def _all(
        self,
        work: Callable[[Selection, _Cursor], "AsyncIterator[tuple[Slice, _Cursor | None]]"],
        selection: Selection,
        limit: int | None,
        after: str | None,
    ) -> Affected:
        reasons: Counter[str] = Counter()
        cursor = _read(after)
        if cursor is None:
            cursor = _Cursor("s", 0, await self._store.submit(rows.newest))
        async for slice_, following in work(selection, cursor):
            reasons.update(slice_.chosen)
            if following is not None and limit is not None and reasons.total() >= limit:
                return Affected(reasons, str(following))
        return Affected(reasons, None)

    async def _purge(
        self, selection: Selection, cursor: _Cursor
    ) -> AsyncIterator[tuple[Slice, _Cursor | None]]:
        following: _Cursor | None = cursor
        while following is not None:
            slice_ = await self._store.submit(
                partial(rows.purge, selection=selection, after=following.after, upto=following.upto)
            )
            following = _behind(following, slice_)
            yield slice_, following

    async def _count(
        self, selection: Selection, cursor: _Cursor, *, redrivable: bool
    ) -> AsyncIterator[tuple[Slice, _Cursor | None]]:
        following: _Cursor | None = cursor
        while following is not None:
            slice_ = await self._store.submit(
                partial(
                    rows.count,
                    selection=selection,
                    after=following.after,
                    upto=following.upto,
                    redrivable=redrivable,
                )
            )
            following = _behind(following, slice_)
            yield slice_, following

    async def _redrive(
        self, selection: Selection, cursor: _Cursor, *, at_once: int
    ) -> AsyncIterator[tuple[Slice, _Cursor | None]]:
        following: _Cursor | None = cursor
        while following is not None:
            if following.part == "s":
                slice_ = await self._redrive_deliveries(selection, following, at_once)
                following = _behind(following, slice_) or _Cursor("m", 0, cursor.upto)
            elif following.part == "m":
                slice_ = await self._mailboxes.redrive(
                    selection, after=following.after, upto=following.upto
                )
                following = _behind(following, slice_) or _Cursor("u", 0, cursor.upto)
            else:
                slice_ = await self._redrive_set_aside(selection, following)
                following = _behind(following, slice_)
            yield slice_, following

    async def _redrive_set_aside(self, selection: Selection, cursor: _Cursor) -> Slice:
        """Publish messages that were set aside and can be read now. A letter goes when its events
        are durable: a crash in between publishes them once more, with the same ids."""
        look = partial(rows.set_aside, selection=selection, after=cursor.after, upto=cursor.upto)
        found, last = await self._store.submit(look)
        done = [number for number, message in found if await self._publish_again(message)]
        reasons = await self._store.submit(partial(rows.remove_redriven, numbers=done))
        return Slice(reasons, last)

    async def _redrive_deliveries(
        self, selection: Selection, cursor: _Cursor, at_once: int
    ) -> Slice:
        own = author(self._sharing.number, HOUSE)
        position = next_position(self._position, time.time_ns(), own)
        self._position = position + SLICE * AUTHORS
        redriven = await self._store.submit(
            partial(
                rows.redrive,
                selection=selection,
                alive={entry.id for entry in self._table.entries},
                position=position,
                after=cursor.after,
                upto=cursor.upto,
                step=AUTHORS,
                limit=at_once,
            )
        )
        await self._sharing.rows_added(redriven.again)
        return redriven.slice

    async def purge_old(self) -> None:
        """Forget letters that were kept for long enough."""
        old = partial(rows.purge_died, before=time.time() - rows.KEPT)
        while await self._store.submit(old):
            pass  # Others have their turn between two transactions.
        await self._store.submit(dead_letter_counts.fold)

    # Bounds.

    async def bound(self, *, most: int, most_of_owner: int) -> int:
        """Let the oldest letters go, until all have *most* bytes together and those of one owner
        *most_of_owner*; how many went. Beyond the first, whoever has most gives."""
        gone = 0
        while True:
            owners = await self._store.submit(dead_letter_counts.by_owner)
            owner = next(iter(owners), None)
            if owner is None:
                return gone
            over = max(sum(owners.values()) - most, owners[owner] - most_of_owner)
            if over <= 0:
                return gone
            number, octets = await self._store.submit(
                partial(rows.purge_oldest, owner=owner, octets=min(over, owners[owner]))
            )
            if not number:
                return gone
            gone += number
            _log.warning("deadletters.purged", owner=owner, number=number, bytes=octets)

    async def bound_owners(self, *, keeps_house: bool) -> None:
        """Let the oldest letters go of owners that keep too much, here and elsewhere, and have
        shrunk the backlogs of their subscriptions."""
        if self._owner_bytes is None or not (exceeding := self._owner_bytes.exceeding()):
            return
        entries: dict[str, list[Entry]] = {owner: [] for owner, _ in exceeding}
        for entry in self._table.entries:  # Once for all owners: there may be many of both.
            if (of_owner := entries.get(entry.subscription.owner)) is not None:
                of_owner.append(entry)
        for owner, over in exceeding:
            if keeps_house:
                number, octets = await self._store.submit(
                    partial(rows.purge_oldest, owner=owner, octets=over)
                )
                if number:
                    self._owner_bytes.freed(owner, octets)
                    _log.warning("deadletters.purged", owner=owner, number=number, bytes=octets)
            self._shrink(entries[owner], self._owner_bytes.over(owner))

    async def run(self, *, most: int, most_of_owner: int, keeps_house: Callable[[], bool]) -> None:
        """Count what owners keep, and keep dead letters within their bounds, for ever."""
        seen = -1
        while True:
            if self._sharing.shared or self._store.commits != seen:
                counted = True
                with contextlib.suppress(Refused):
                    if self._owner_bytes is not None:
                        counted = await self._owner_bytes.count_again()
                    if keeps_house():
                        await self.bound(most=most, most_of_owner=most_of_owner)
                    await self.bound_owners(keeps_house=keeps_house())
                seen = self._store.commits if counted else -1
            await asyncio.sleep(LOOK)


def _behind(cursor: _Cursor, slice_: Slice) -> _Cursor | None:
    """The cursor behind *slice_*; None at the end."""
    return None if slice_.last is None else replace(cursor, after=slice_.last)


def _read(cursor: str | None) -> _Cursor | None:
    if cursor is None:
        return None
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise Refused(Reason.MESSAGE_INVALID, "`after` is not what an answer's `next` said.")
    return _Cursor(found[1], int(found[2]), int(found[3]))
