"""``embedded:``, a messaging system inside the process, with a durable journal of its own.

The event loop keeps little: publications that wait for the journal's writer, messages ready to be
yielded, and the numbers of unsettled ones. Messages behind ``loaded`` are in the journal alone:

     settled, gone │ yielded, unsettled │ ready, in memory │ in the journal
    ───────────────┴────────────────────┴──────────────────┴────────────────> number
                                                         loaded           newest

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
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from adapters.embedded.journal import Journal
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
from mediation.model.messages import Notification

PREFETCH = 32
"""A crash repeats at most this many."""

READY_MESSAGES = 64
READY_OCTETS = 8 * 2**20
"""The most that waits in memory to be yielded; the rest waits in the journal."""

WAITING_MESSAGES = 1000
WAITING_OCTETS = 64 * 2**20
"""The most that may wait for a commit; publications beyond are refused."""

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


class EmbeddedAdapter:
    """The adapter of ``embedded:``.

    Settings: ``prefetch``, how many messages may be unsettled; ``survive-power-loss``, false to
    leave flushing to the operating system; ``reserve``, bytes of the disk left free.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        prefetch: int = PREFETCH,
        waits: float = COMMIT_SECONDS,
        late: float = LATE_SECONDS,
    ) -> None:
        self.capabilities = Capabilities(durable=True, prefetch=prefetch, reporting=self._report)
        self._journal = journal
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
        survive = options.flag("survive-power-loss", True)
        reserve = options.octets("reserve")
        options.finish()
        journal = Journal(data / "journal.db", survive_power_loss=survive, reserve=reserve)
        return cls(journal, prefetch=prefetch)

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
        self._ready: deque[tuple[int, Notification, int]] = deque()
        self._ready_octets = 0
        self._unsettled: set[int] = set()
        self._loaded = 0
        self._reading = False
        self._changed = asyncio.Event()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._ended.add_done_callback(self._writer_ended)
        opened: asyncio.Future[int] = self._loop.create_future()
        self._writer = Writer(self._journal, self._work, self._loop, self._committed)
        self._thread = threading.Thread(
            target=self._writer.run, args=(opened, self._ended), name="journal", daemon=True
        )
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        self._thread.start()
        self._newest = self._inherited = await opened
        self._failure = None
        self._open = True
        self._refill()
        self._watch()

    async def publish(self, notifications: Sequence[Notification]) -> None:
        if not notifications:
            return
        if not self._open:
            raise AdapterUnavailable(self._failure or "the journal is closed")
        entries = [encode_entry(notification) for notification in notifications]
        octets = sum(map(len, entries))
        if self._waiting and (
            self._waiting + len(entries) > WAITING_MESSAGES
            or self._waiting_octets + octets > WAITING_OCTETS
        ):
            raise AdapterUnavailable("too many messages wait for the journal")
        self._waiting += len(entries)
        self._waiting_octets += octets
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

    def _take(self) -> EmbeddedDelivery | None:
        """Return the next message that some interest covers, None if nothing waits or the window is
        full."""
        while self._ready and len(self._unsettled) < self.capabilities.prefetch:
            number, notification, octets = self._ready.popleft()
            self._ready_octets -= octets
            self._refill()
            if self._interests.cover(notification.topic):
                self._unsettled.add(number)
                return EmbeddedDelivery(self, number, notification, number <= self._inherited)
            self._hand(number)
        return None

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
            self._waiting -= len(publication.entries)
            self._waiting_octets -= publication.octets
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
                    self._hand_over(number, notification, len(entry.body))
            if not publication.done.done():
                publication.done.set_result(None)
        self._unsettled.difference_update(outcome.settled)
        if outcome.restored is not None:
            self._reading = False
            self._loaded = outcome.loaded
            for restored in outcome.restored:
                self._ready.append((restored.number, restored.notification, restored.octets))
                self._ready_octets += restored.octets
        self._refill()
        self._changed.set()

    def _hand_over(self, number: int, notification: Notification, octets: int) -> None:
        """Keep a fresh message in memory, unless older ones are in the journal only, or too many
        wait."""
        if (
            self._loaded == self._newest
            and len(self._ready) < READY_MESSAGES
            and self._ready_octets < READY_OCTETS
        ):
            self._ready.append((number, notification, octets))
            self._ready_octets += octets
            self._loaded = number
        self._newest = number

    def _refill(self) -> None:
        """Ask for messages from the journal before the ready ones run out."""
        if (
            self._loaded < self._newest
            and not self._reading
            and len(self._ready) <= READY_MESSAGES // 2
            and self._ready_octets < READY_OCTETS
        ):
            self._reading = True
            self._hand(
                Read(
                    self._loaded,
                    READY_MESSAGES - len(self._ready),
                    READY_OCTETS - self._ready_octets,
                )
            )

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
