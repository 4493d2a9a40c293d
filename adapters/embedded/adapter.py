"""``embedded:``, a messaging system inside the process, with a durable journal of its own.

The event loop keeps little: publications that wait for the journal's writer, messages ready to be
yielded, and the numbers of unsettled ones. Messages behind ``loaded`` are in the journal alone:

     settled, gone │ yielded, unsettled │ ready, in memory │ in the journal
    ───────────────┴────────────────────┴──────────────────┴────────────────> number
                                                         loaded           newest

Each tenant has such a line of messages, and all lines have turns, each with a window of its own:
who publishes more than is delivered keeps no other tenant's messages waiting. Where there are no
tenants there is one line.

A message counts as unsettled until its settlement is committed, so that a crash repeats no more
than the window holds.
"""

import asyncio
import logging
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from adapters.embedded.journal import LINE_BITS, Journal
from adapters.embedded.writer import (
    Outcome,
    Probe,
    Publication,
    Read,
    Stop,
    Work,
    Writer,
    encode_entry,
)
from adapters.interests import Interests
from adapters.options import Options
from adapters.protocol import (
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Interest,
    Isolated,
)
from adapters.tenant_turns import TenantTurns
from mediation.model.messages import Notification

PREFETCH = 32
"""A crash repeats at most this many of each tenant."""

READY_MESSAGES = 64
READY_OCTETS = 8 * 2**20
"""The most of a tenant that waits in memory to be yielded; the rest waits in the journal."""
ALL_READY_OCTETS = 4 * READY_OCTETS
"""The most of all tenants, and one message of each tenant beside."""
ALL_UNSETTLED_OCTETS = 128 * 2**20
"""The most that is unsettled of all tenants, and one message of each tenant beside: windows alone
would let a thousand tenants have 32,000 messages of any size in memory."""

WAITING_MESSAGES = 1000
WAITING_OCTETS = 64 * 2**20
"""The most that may wait for a commit; publications beyond are refused. Of several tenants each may
use half of the room that the others leave of twice as much, so that none finds it full (Choudhury
and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998)."""

TENANT_BACKLOG = 10_000
"""Messages of a tenant that may wait to be yielded; publications beyond are refused."""
BACKLOG_RETRY = 5.0
"""Seconds that a publisher is told to wait then."""

CLOSE_SECONDS = 6.0
COMMIT_SECONDS = 10.0
"""What waits longer for a commit is refused; if the commit has begun, it may yet be kept."""
LATE_SECONDS = 5.0
"""A commit that takes longer is told as a disk that takes nothing."""
LOOK_SECONDS = 0.5
"""The time from one look at what waits to the next."""

SWITCH_SECONDS = 0.0001
"""Python's switch interval, after which a busy event loop lets the writer run. With Python's 5 ms a
loop whose turns are shorter can keep the writer waiting for seconds (measured: 17 publications a
second, the slowest after 11 s; with 0.1 ms 4,500 a second, the slowest after 9 ms)."""

logger = logging.getLogger(__name__)


class EmbeddedDelivery:
    """A message of the journal."""

    __slots__ = ("_adapter", "_notification", "_number", "_redelivered", "_settled")

    partition = 0

    def __init__(
        self, adapter: "EmbeddedAdapter", number: int, notification: Notification, redelivered: bool
    ) -> None:
        self._adapter = adapter
        self._number = number
        self._notification = notification
        self._redelivered = redelivered
        self._settled = False

    @property
    def notification(self) -> Notification:
        return self._notification

    @property
    def redelivered(self) -> bool:
        return self._redelivered

    def settle(self) -> None:
        if not self._settled:
            self._settled = True
            self._adapter._settle(self._number)


@dataclass(slots=True, eq=False)
class _Line:
    """The messages of a tenant: those that are ready in memory, with their bytes, and those that
    are unsettled, with theirs."""

    tenant: str
    newest: int
    inherited: int
    """The newest of an earlier run."""
    loaded: int
    """Those behind it are in the journal alone."""
    ready: deque[tuple[int, Notification, int]] = field(default_factory=deque)
    ready_octets: int = 0
    unsettled: dict[int, int] = field(default_factory=dict)
    """Bytes, by number."""
    waits: bool = False
    """It waits for its turn to be yielded."""
    waits_to_read: bool = False
    """It waits for its turn to read the journal."""


class EmbeddedAdapter:
    """The adapter of ``embedded:``.

    Settings: ``prefetch``, how many messages of a tenant may be unsettled; ``tenant-backlog``, how
    many of a tenant other than the default one may wait to be yielded; ``survive-power-loss``,
    false to leave flushing to the operating system; ``reserve``, bytes of the disk left free.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        prefetch: int = PREFETCH,
        tenant_backlog: int = TENANT_BACKLOG,
        waits: float = COMMIT_SECONDS,
        late: float = LATE_SECONDS,
    ) -> None:
        self.capabilities = Capabilities(durable=True, prefetch=prefetch, reporting=self._report)
        self._journal = journal
        self._tenant_backlog = tenant_backlog
        self._waits = waits
        self._late = late
        self._watching: asyncio.TimerHandle | None = None
        self._failed: AdapterState | None = None
        """What is wrong with the journal, while something is."""
        self._told = 0.0
        """When the writer last told of anything."""
        self._interests = Interests()
        self._open = False
        self._failure: str | None = None

    @classmethod
    def from_url(cls, url: str, *, data: Path, settings: Mapping[str, str]) -> Self:
        options = Options(url, settings)
        prefetch = options.number("prefetch", PREFETCH, least=1, most=10_000)
        backlog = options.number("tenant-backlog", TENANT_BACKLOG, least=1, most=100_000_000)
        survive = options.flag("survive-power-loss", True)
        reserve = options.octets("reserve")
        options.finish()
        journal = Journal(data / "journal.db", survive_power_loss=survive, reserve=reserve)
        return cls(journal, prefetch=prefetch, tenant_backlog=backlog)

    @property
    def commits(self) -> int:
        """The number of transactions that the journal has committed: under load, fewer than
        messages."""
        return self._journal.commits

    @classmethod
    def isolate(
        cls, url: str, settings: Mapping[str, str], *, name: str, through: int | None = None
    ) -> Isolated:
        """As `Isolating.isolate`: all that it makes is in its folder."""
        return Isolated(url, settings)

    async def remove(self) -> Collection[str]:
        return ()

    async def start(self, interests: Collection[Interest]) -> None:
        self._interests.replace(interests)
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[Sequence[Work]] = queue.SimpleQueue()
        self._handing: list[Work] = []
        self._inflight: deque[Publication] = deque()
        self._waiting = self._waiting_octets = 0
        self._waiting_of: dict[str, tuple[int, int]] = {}
        """Messages that wait for a commit, and their bytes, by tenant."""
        self._lines: dict[int, _Line] = {}
        """By their numbers in the journal."""
        self._line_of: dict[str, _Line] = {}
        self._turns: TenantTurns[_Line] = TenantTurns()
        """The lines that have something to yield, and room in their windows."""
        self._ready_octets = self._unsettled_octets = 0
        self._reading: _Line | None = None
        self._to_read: deque[_Line] = deque()
        self._changed = asyncio.Event()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._ended.add_done_callback(self._writer_ended)
        opened: asyncio.Future[Mapping[str, tuple[int, int]]] = self._loop.create_future()
        self._writer = Writer(self._journal, self._work, self._loop, self._committed)
        self._thread = threading.Thread(
            target=self._writer.run, args=(opened, self._ended), name="journal", daemon=True
        )
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        self._thread.start()
        for tenant, (before, newest) in (await opened).items():
            self._add_line(tenant, before, newest)
        self._failure = None
        self._open = True
        for line in self._lines.values():
            self._refill(line)
        self._watch()

    async def publish(self, notifications: Sequence[Notification]) -> None:
        if not notifications:
            return
        if not self._open:
            raise AdapterUnavailable(self._failure or "the journal is closed")
        entries = [encode_entry(notification) for notification in notifications]
        octets = sum(map(len, entries))
        self._take_room(entries[0].tenant, len(entries), octets)
        done: asyncio.Future[None] = self._loop.create_future()
        publication = Publication(notifications, entries, octets, done, self._loop.time())
        self._inflight.append(publication)
        self._hand(publication)
        try:
            await done
        finally:  # Else a refusal would hold them, and they it.
            del done, publication

    async def want(self, interest: Interest) -> None:
        self._interests.add(interest)

    async def unwant(self, interest: Interest) -> None:
        self._interests.discard(interest)

    async def deliveries(self) -> AsyncIterator[EmbeddedDelivery]:
        while self._open:
            delivery = self._take()
            if delivery is not None:
                yield delivery
            else:
                self._changed.clear()
                await self._changed.wait()
        if self._failure is not None:
            raise AdapterUnavailable(self._failure)

    async def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._changed.set()
        if self._watching is not None:
            self._watching.cancel()
        self._hand(Stop())
        self._flush()
        await asyncio.wait([self._ended], timeout=CLOSE_SECONDS)
        if self._ended.done():
            self._thread.join()
        else:
            logger.error("journal.not_closed", extra={"seconds": CLOSE_SECONDS})

    def _watch(self) -> None:
        """Refuse publications that have waited too long."""
        self._watching = self._loop.call_later(min(LOOK_SECONDS, self._waits / 4), self._watch)
        before = self._loop.time() - self._waits
        for publication in self._inflight:
            if publication.since > before:
                break
            _refuse(publication, AdapterUnavailable("the journal does not answer in time"))

    def _report(self) -> AdapterState | None:
        """Say what is wrong with the journal; None while nothing is. If it was idle, the writer is
        asked to try it."""
        if not self._open:
            return None
        began = self._writer.began
        if began is not None and time.monotonic() - began > self._late:
            return self._fails("the journal's disk does not answer")
        if began is None and time.monotonic() - self._told > self._late:
            self._told = time.monotonic()
            self._hand(Probe())
        return self._failed

    def _fails(self, why: str) -> AdapterState:
        if self._failed is None or self._failed.last_error != why:
            now = datetime.now(UTC)
            since = now if self._failed is None else self._failed.since
            self._failed = AdapterState(False, since, why, blocked=True, last_error_at=now)
        return self._failed

    def _hand(self, work: Work) -> None:
        """Hand *work* to the writer, together with all that this turn of the event loop brings.
        Waking the writer for each would cost more than the commit that they share."""
        if not self._handing:
            self._loop.call_soon(self._flush)
        self._handing.append(work)

    def _flush(self) -> None:
        if self._handing:
            self._work.put(self._handing)
            self._handing = []

    def _take_room(self, tenant: str, messages: int, octets: int) -> None:
        """Count messages of *tenant* that wait for a commit.

        Raises:
            AdapterUnavailable: Too many wait for it, or too many of the tenant to be yielded.
        """
        own, own_octets = self._waiting_of.get(tenant, (0, 0))
        all_messages, all_octets = self._waiting + messages, self._waiting_octets + octets
        if own and (
            own + messages + all_messages > 2 * WAITING_MESSAGES
            or own_octets + octets + all_octets > 2 * WAITING_OCTETS
        ):
            raise AdapterUnavailable("too many messages wait for the journal")
        line = self._line_of.get(tenant) if tenant else None
        if line is not None:
            behind = line.newest - line.loaded + len(line.ready)
            if behind >= self._tenant_backlog:
                text = f"{behind:,} messages of the tenant wait to be delivered"
                raise AdapterUnavailable(text, retry_after=BACKLOG_RETRY)
        self._waiting, self._waiting_octets = all_messages, all_octets
        self._waiting_of[tenant] = own + messages, own_octets + octets

    def _give_room(self, publication: Publication) -> None:
        """Count *publication*, which was committed or refused, as waiting no longer."""
        messages, octets, tenant = (
            len(publication.entries), publication.octets, publication.entries[0].tenant
        )  # fmt: skip
        self._waiting -= messages
        self._waiting_octets -= octets
        own, own_octets = self._waiting_of[tenant]
        if own == messages:
            del self._waiting_of[tenant]
        else:
            self._waiting_of[tenant] = own - messages, own_octets - octets

    def _add_line(self, tenant: str, before: int, newest: int) -> _Line:
        """Add the line of *tenant*, which has messages of an earlier run behind number *before*, up
        to *newest*."""
        line = _Line(tenant, newest, inherited=newest, loaded=before)
        self._lines[newest >> LINE_BITS] = self._line_of[tenant] = line
        return line

    def _take(self) -> EmbeddedDelivery | None:
        """Return the next message that some interest covers, of the line whose turn it is; None if
        nothing waits or the windows are full."""
        turns = self._turns
        while turns:
            line = turns.popleft()
            line.waits = False
            if not self._may_go(line):  # Others have taken the room meanwhile.
                continue
            number, notification, octets = line.ready.popleft()
            line.ready_octets -= octets
            self._ready_octets -= octets
            self._refill(line)
            turns.sent(line.tenant, octets)
            wanted = self._interests.cover(notification.topic)
            if wanted:
                line.unsettled[number] = octets
                self._unsettled_octets += octets
            self._wait_for_turn(line)
            if wanted:
                return EmbeddedDelivery(self, number, notification, number <= line.inherited)
            self._hand(number)
        return None

    def _wait_for_turn(self, line: _Line) -> None:
        """Put *line* among those that have turns, where it has something to yield."""
        if not line.waits and self._may_go(line):
            line.waits = True
            self._turns.append(line, line.tenant)

    def _may_go(self, line: _Line) -> bool:
        """Whether the first ready message of *line* may be yielded."""
        unsettled = line.unsettled
        return (
            bool(line.ready)
            and len(unsettled) < self.capabilities.prefetch
            and (not unsettled or self._unsettled_octets < ALL_UNSETTLED_OCTETS)
        )

    def _settle(self, number: int) -> None:
        if self._open:
            self._hand(number)

    def _committed(self, outcome: Outcome) -> None:
        """Take over what the writer has committed and read in one turn."""
        self._told = time.monotonic()
        self._failed = self._fails(outcome.failing) if outcome.failing else None
        numbers = iter(outcome.numbers)
        for publication in outcome.publications:
            self._inflight.popleft()
            self._give_room(publication)
            if publication in outcome.left_out:
                continue
            if outcome.refused is not None:
                _refuse(publication, outcome.refused)
                continue
            for notification, entry in zip(
                publication.notifications, publication.entries, strict=True
            ):
                number = next(numbers)
                if number is not None:
                    line = self._line_of.get(entry.tenant)
                    if line is None:
                        first = number >> LINE_BITS << LINE_BITS
                        line = self._add_line(entry.tenant, first, first)
                    self._hand_over(line, number, notification, len(entry.body))
            if not publication.done.done():
                publication.done.set_result(None)
        self._note_settled(outcome.settled)
        if outcome.restored is not None and self._reading is not None:
            line, self._reading = self._reading, None
            line.loaded = outcome.loaded
            for restored in outcome.restored:
                self._make_ready(line, restored.number, restored.notification, restored.octets)
            self._refill(line)
        self._changed.set()

    def _note_settled(self, numbers: Sequence[int]) -> None:
        """Count the messages with these *numbers* as settled, and yield what they made room for."""
        was_full = self._unsettled_octets >= ALL_UNSETTLED_OCTETS
        for number in numbers:
            line = self._lines[number >> LINE_BITS]
            self._unsettled_octets -= line.unsettled.pop(number, 0)
            self._wait_for_turn(line)
        if was_full and self._unsettled_octets < ALL_UNSETTLED_OCTETS:
            for line in self._lines.values():
                self._wait_for_turn(line)

    def _make_ready(
        self, line: _Line, number: int, notification: Notification, octets: int
    ) -> None:
        line.ready.append((number, notification, octets))
        line.ready_octets += octets
        self._ready_octets += octets
        self._wait_for_turn(line)

    def _hand_over(self, line: _Line, number: int, notification: Notification, octets: int) -> None:
        """Keep a fresh message in memory, unless older ones are in the journal only, or too many
        wait."""
        if line.loaded == line.newest and len(line.ready) < READY_MESSAGES and self._has_room(line):
            self._make_ready(line, number, notification, octets)
            line.loaded = number
        line.newest = number
        self._refill(line)

    def _has_room(self, line: _Line) -> bool:
        """Whether memory has room for one message more of *line*."""
        return line.ready_octets < READY_OCTETS and (
            self._ready_octets < ALL_READY_OCTETS or not line.ready
        )

    def _refill(self, line: _Line) -> None:
        """Ask for messages of *line* from the journal before the ready ones run out; the lines that
        ask have turns."""
        if (
            line.loaded < line.newest
            and not line.waits_to_read
            and line is not self._reading
            and len(line.ready) <= READY_MESSAGES // 2
            and self._has_room(line)
        ):
            line.waits_to_read = True
            self._to_read.append(line)
        if self._reading is None and self._to_read:
            line = self._reading = self._to_read.popleft()
            line.waits_to_read = False
            room = min(READY_OCTETS - line.ready_octets, ALL_READY_OCTETS - self._ready_octets)
            messages = READY_MESSAGES - len(line.ready)
            self._hand(Read(line.loaded, messages, max(1, room)))

    def _writer_ended(self, ended: asyncio.Future[None]) -> None:
        """Refuse all publications that wait, if the writer ended with an error."""
        if ended.cancelled() or (exc := ended.exception()) is None:
            return
        self._open = False
        self._failure = f"the journal's writer ended: {exc}"
        self._changed.set()
        while self._inflight:
            _refuse(self._inflight.popleft(), AdapterUnavailable(self._failure))


def _refuse(publication: Publication, refused: AdapterUnavailable) -> None:
    if not publication.done.done():
        error = AdapterUnavailable(str(refused), retry_after=refused.retry_after)
        publication.done.set_exception(error)
