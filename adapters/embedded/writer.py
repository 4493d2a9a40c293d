"""The thread that owns the journal of ``embedded:``.

It takes all work that has come, commits it as one transaction, tells the event loop once, and
begins again. So many publishers share one flush of the disk, without a timer.

    publish ──┐                               ┌── who published
    settle  ──┼─> queue ─> writer: commit ──>─┼── which settlements are done
    read    ──┘                               └── what was read back

It is not `gateway.group_commit`, which adapters may not import: a floor above. It has less to do,
too: a settlement has nobody who waits, a read has one answer for many, and the outcome of a whole
commit is told in one call.
"""

import asyncio
import json
import logging
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from adapters.embedded.journal import Entry, Journal, Stored
from adapters.protocol import AdapterUnavailable
from filters import Refused
from mediation.model.messages import Notification
from mediation.packaging.records import decode, encode
from mediation.tenants import tenant_of_topic

RETRY_SECONDS = 1.0
"""Seconds after which settlements that the disk did not take are tried again."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """The notifications of one call of publish; *done* is for the event loop alone."""

    notifications: Sequence[Notification]
    entries: Sequence[Entry]
    octets: int
    done: asyncio.Future[None]
    since: float = 0.0
    """The event loop's time at which it was handed over."""

    @property
    def refused(self) -> bool:
        """True if its publisher was told that it is not taken: then it is left out."""
        return self.done.done() and not self.done.cancelled()


@dataclass(frozen=True, slots=True)
class Read:
    """A request for the messages of a line behind number *after*."""

    after: int
    messages: int
    octets: int


class Stop:
    """A request to commit what came before, and to close the journal."""


class Probe:
    """A request to see whether the disk takes anything."""


Work = Publication | Read | Stop | Probe | int
"""The items of the queue; an int is the number of a settled message."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A message that was read back."""

    number: int
    notification: Notification
    octets: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one commit, for the event loop.

    *numbers* are those of all entries of *publications* but those *left_out*, None for a repeat;
    with *refused* none of them is kept. *loaded* goes with *restored*: up to it the line has
    no other messages. *failing* says why the disk takes nothing now; "" if it does.
    """

    publications: Sequence[Publication]
    numbers: Sequence[int | None]
    refused: AdapterUnavailable | None
    settled: Sequence[int]
    restored: Sequence[Restored] | None
    loaded: int
    left_out: frozenset[Publication] = frozenset()
    failing: str = ""


@dataclass(slots=True)
class _Batch:
    """The work that was taken from the queue at once."""

    publications: list[Publication] = field(default_factory=list)
    stop: bool = False
    probe: bool = False


class Writer:
    """Runs in a thread of its own. *tell* is called in *loop*, once after each commit."""

    def __init__(
        self,
        journal: Journal,
        work: queue.SimpleQueue[Sequence[Work]],
        loop: asyncio.AbstractEventLoop,
        tell: Callable[[Outcome], None],
    ) -> None:
        self._journal = journal
        self._work = work
        self._loop = loop
        self._tell = tell
        self._settled: list[int] = []
        self._read: Read | None = None
        self._failing = ""
        self.began: float | None = None
        """When the commit that is under way began (`time.monotonic`); None while none is."""

    def run(
        self, opened: asyncio.Future[Mapping[str, tuple[int, int]]], ended: asyncio.Future[None]
    ) -> None:
        """Open the journal and answer *opened* with its lines (`Journal.lines`); work until
        `Stop`."""
        try:
            self._journal.open()
        except Exception as exc:
            self._in_loop(_fail, opened, exc)
            return
        self._in_loop(_answer, opened, self._journal.lines)
        try:
            while not self._turn():
                pass
        except Exception as exc:
            logger.exception("journal.writer_failed")
            self._in_loop(_fail, ended, exc)
        finally:
            self._journal.close()
        self._in_loop(_answer, ended, None)

    def _turn(self) -> bool:
        """Take what has come, and commit it. Returns whether that was the last turn."""
        batch = self._take()
        self.began = time.monotonic()
        try:
            outcome = self._commit(batch.publications, probe=batch.probe)
        finally:
            self.began = None
        self._in_loop(self._tell, outcome)
        return batch.stop

    def _take(self) -> _Batch:
        batch = _Batch()
        undone = self._settled or self._read is not None or self._failing
        batch.probe = bool(self._failing)
        with suppress(queue.Empty):
            handed = self._work.get(timeout=RETRY_SECONDS if undone else None)
            while True:
                for work in handed:
                    match work:
                        case int():
                            self._settled.append(work)
                        case Publication():
                            batch.publications.append(work)
                        case Read():
                            self._read = work
                        case Probe():
                            batch.probe = True
                        case Stop():
                            batch.stop = True
                            return batch
                handed = self._work.get_nowait()
        return batch

    def _commit(self, publications: Sequence[Publication], *, probe: bool = False) -> Outcome:
        left_out = frozenset(one for one in publications if one.refused)
        entries = [
            entry
            for publication in publications
            if publication not in left_out
            for entry in publication.entries
        ]
        numbers: Sequence[int | None] = ()
        refused = None
        settled: Sequence[int] = ()
        try:
            if entries or self._settled:
                numbers = self._journal.commit(entries, self._settled, now=time.time())
                settled, self._settled = self._settled, []
                self._recovered()
            elif probe:
                self._journal.probe(now=time.time())
                self._recovered()
        except AdapterUnavailable as exc:
            refused = exc.with_traceback(None)
            self._failed(exc)
            if entries and self._settled:
                settled = self._settle_alone()
        restored, loaded = self._restore()
        return Outcome(
            publications, numbers, refused, settled, restored, loaded, left_out, self._failing
        )

    def _settle_alone(self) -> Sequence[int]:
        """Commit settlements without messages: they make room, so a disk that is too full for
        messages may still take them."""
        with suppress(AdapterUnavailable):
            self._journal.commit((), self._settled, now=time.time())
            settled, self._settled = self._settled, []
            return settled
        return ()

    def _restore(self) -> tuple[Sequence[Restored] | None, int]:
        if self._read is None:
            return None, 0
        try:
            found, loaded = self._journal.read(
                self._read.after, messages=self._read.messages, octets=self._read.octets
            )
        except AdapterUnavailable as exc:
            self._failed(exc)
            return None, 0
        self._read = None
        return [restored for restored in map(_decode_entry, found) if restored is not None], loaded

    def _failed(self, exc: AdapterUnavailable) -> None:
        if not self._failing:
            logger.error("journal.unavailable", extra={"reason": str(exc)})
        self._failing = str(exc)

    def _recovered(self) -> None:
        if self._failing:
            logger.warning("journal.available")
        self._failing = ""

    def _in_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(callback, *arguments)


def encode_entry(notification: Notification) -> Entry:
    """Encode *notification* as the journal keeps it.

    Raises:
        MediationError: It cannot be kept.
    """
    record, tenant = encode(notification), tenant_of_topic(notification.topic)
    return Entry(
        notification.source, notification.id, json.dumps(record.properties), record.body, tenant
    )


def _decode_entry(stored: Stored) -> Restored | None:
    try:
        notification = decode(stored.body, stored.properties)
    except (Refused, ValueError):
        logger.exception("journal.message_unreadable", extra={"number": stored.seq})
        return None
    return Restored(stored.seq, notification, len(stored.body))


def _answer(future: asyncio.Future[object], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[object], exc: Exception) -> None:
    if not future.done():
        future.set_exception(exc)
