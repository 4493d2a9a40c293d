"""Replays: what an archive has is delivered to one subscription, because an operator asked for a
range of it, or because the subscription began so.

The gateway that keeps house reads, whichever was asked (`gateway.subscriptions.archive_reading`).

A subscription that begins with the archive has three phases, which its policy names:

    ARCHIVE  rows come out of the archive, up to some seconds ago. What is published passes it by:
             it is in the archive soon.
    SEAM     what is published waits for it, in the store. What was published before is settled,
             so that the archive has it; and the rest is read. What both have is known by source
             and id, and there once: nothing of it was sent yet.
    DONE     all that waits is sent, by the times of the messages; then what is published.

A message that is matched long after it was accepted, as after an outage, is delivered at once in
the first phase, because the reader may have passed its time: such a one may come twice.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog

from adapters import XPathFilterAdapter
from filters import FilterError, Reason, Refused, View
from filters.archive_positions import Position
from filters.archive_ranges import ArchiveReader
from gateway.delivery import Dispatchers, Entry, WorkSharing
from gateway.delivery.backlog import MOST
from gateway.model.replays import (
    Replay,
    ReplayKind,
    ReplayProgress,
    ReplaySelection,
    ReplayState,
)
from gateway.observing.samples import Sample, counter
from gateway.publishing.archive import PERIOD, Archive
from gateway.publishing.filter_thread import FilterThread
from gateway.security.principals import OF_STRANGERS, Principal, tenant_of
from gateway.security.quotas import QuotaExceeded
from gateway.store import Store, StoreUnavailable
from gateway.store import replays as rows
from gateway.subscriptions.archive_reading import PAUSE, ArchiveReading, Rules, roots_of, selected
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle, Start, SubscriptionUnknown
from gateway.subscriptions.table import SubscriptionTable
from mediation.filtering import of_producer
from mediation.model.messages import CatchingUp, Subscription

LOOK = 2.0
"""Seconds from one look for new replays to the next."""
STORED = 0.1
"""Seconds after which a new subscription is stored, mostly; else the next look finds it."""
AT_A_TIME = 4
"""Replays that are read at a time; others have their turn in between."""
OF_OWNER = 8
"""Replays with which subscriptions of one owner begin, at a time."""
OF_TENANT = 25
"""Replays that run at a time for the subscriptions of one tenant: others have their turn, too."""
LAG = 15.0
"""Seconds by which a reader keeps behind what is published: three times what a message may take to
be matched, so that its row is there (`gateway.delivery.dispatcher.FRESH`)."""
LAG_OF_OTHERS = PERIOD + 30.0
"""The same where other gateways write to the archive, too, whose files are finished in time."""
NEARER = 0.8
"""The part of the time that was left to read, beyond which a round brought a reader no nearer to
what is published: a gateway that is busy all the time has no shorter rounds."""
MOST_LEFT = 20
"""How many times its distance may then be left to read, while what is published waits."""
FEW = MOST // 2
"""Deliveries that may be left then: they come however many wait, and beyond `MOST` of these the
oldest are dead letters."""
SLOW = 30.0
"""Seconds that messages may wait for slow filters of others before they are archived."""
SKEW = 5.0
"""Seconds by which times of messages may be in the future."""
Documents = Callable[[Collection[View]], Awaitable[Mapping[View, bytes]]]
"""`ProducerDocuments.of`."""
_log = structlog.get_logger("dragoman.replays")


class Replays:
    """Begins, carries out and cancels replays of *archive*; None: this gateway has none.

    Args:
        documents: Returns the documents of the producer that views name, as they are now.
    """

    def __init__(
        self,
        archive: Archive | None,
        store: Store,
        table: SubscriptionTable,
        lifecycle: Lifecycle,
        dispatchers: Dispatchers,
        sharing: WorkSharing,
        adapter: XPathFilterAdapter,
        documents: Documents,
        rules: Rules,
    ) -> None:
        self._archive = archive
        self._store = store
        self._table = table
        self._lifecycle = lifecycle
        self._dispatchers = dispatchers
        self._sharing = sharing
        self._adapter = adapter
        self._documents = documents
        self._rules = rules
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._tasks: dict[tuple[str, float], asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._ended = 0
        self._readings: dict[str, ArchiveReading] = {}

    def metrics(self) -> Iterator[Sample]:
        if self._archive is not None:
            number = self._ended + sum(one.replayed for one in self._readings.values())
            yield counter("replayed", "Deliveries replayed from the archive.", number)

    # What is asked for.

    async def begin(
        self,
        entry: Entry,
        since: Position,
        until: datetime,
        selection: ReplaySelection,
        rate: float | None,
    ) -> Replay:
        """Begin a replay into *entry* of what was published from *since* on, before *until*; it is
        in the store on return.

        Raises:
            Refused: ``ACTION_UNSUPPORTED``: there is no archive, the subscription keeps nothing, or
                one runs already. ``FILTER_...``: its filter cannot be evaluated over an archive.
            QuotaExceeded: Too many run.
        """
        self._check(entry.subscription, selection, Reason.ACTION_UNSUPPORTED)
        await self._check_quota(entry.subscription.owner)
        now = time.time()
        progress = ReplayProgress(since)
        replay = Replay(entry.id, since, until, selection, rate, progress, now, now)
        if not await self._store.submit(partial(rows.begin, replay=replay)):
            text = "A replay into this subscription runs: wait for its end, or cancel it."
            raise Refused(Reason.ACTION_UNSUPPORTED, text)
        _log.info(
            "replay.started",
            subscription=entry.id, since=str(since), until=str(Position(until)), rate=rate,
        )  # fmt: skip
        self._wake.set()
        return replay

    async def start_of(
        self, subscription: Subscription, since: Position, principal: Principal
    ) -> Start:
        """What has *subscription*, which is to be stored, begin with what was published from
        *since* on.

        Raises:
            Refused: ``POLICY_UNSUPPORTED``: there is no archive, or nothing waits for it.
                ``NOT_ALLOWED``: *principal* is a stranger.
            QuotaExceeded: Too many run.
        """
        if principal.limits == OF_STRANGERS:
            text = "What was published before is for those who are known here."
            raise Refused(Reason.NOT_ALLOWED, text)
        self._check(subscription, ReplaySelection(), Reason.POLICY_UNSUPPORTED)
        await self._check_quota(subscription.owner, of_owner=OF_OWNER)
        now = time.time()
        replay = Replay(
            subscription.id, since, None, ReplaySelection(), None, ReplayProgress(since), now, now,
            kind=ReplayKind.START,
        )  # fmt: skip
        asyncio.get_running_loop().call_later(STORED, self._wake.set)
        return partial(rows.begin, replay=replay)

    def _check(
        self, subscription: Subscription, selection: ReplaySelection, reason: Reason
    ) -> None:
        """Refuse for *reason* what cannot be replayed into *subscription*."""
        if self._archive is None:
            text = "This gateway has no archive: start it with --archive DIR."
            raise Refused(reason, text)
        if subscription.policy.delivery.at_most_once:
            text = "It wants each event at most once, so nothing waits for it: none is replayed."
            raise Refused(reason, text)
        selected(subscription.filter, selection)

    async def _check_quota(self, owner: str, *, of_owner: int = rows.MOST) -> None:
        """Refuse one more for *owner*, who may have so many."""
        await self._store.submit(rows.forget)
        found = await self._store.submit(rows.running)
        if len(found) >= rows.MOST:
            raise QuotaExceeded(Reason.QUOTA, f"{rows.MOST} replays run already.")
        entries = [self._table.by_id(one.subscription) for one in found]
        owners = [one.subscription.owner for one in entries if one is not None]
        if owners.count(owner) >= of_owner:
            raise QuotaExceeded(Reason.QUOTA, f"{of_owner} of your replays run already.")
        tenant = tenant_of(owner)
        if tenant and [tenant_of(one) for one in owners].count(tenant) >= OF_TENANT:
            raise QuotaExceeded(Reason.QUOTA, f"{OF_TENANT} replays of your tenant run already.")

    async def find(self, entry: Entry) -> Replay | None:
        """The last replay into *entry*; None where there was none."""
        return await self._store.submit(partial(rows.find, subscription=entry.id))

    async def cancel(self, entry: Entry) -> Replay | None:
        """End the replay into *entry* that runs, if one does. What waits already is delivered.
        Returns the last one, as `find` does."""
        await self._store.submit(partial(rows.cancel, subscription=entry.id))
        self._wake.set()
        return await self.find(entry)

    # What is done.

    async def run(self) -> None:
        """Carry out replays while this gateway keeps house, for ever."""
        try:
            while True:
                self._wake.clear()
                with suppress(StoreUnavailable, SubscriptionUnknown):
                    await self._look()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await self._wake.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _look(self) -> None:
        """Begin to read for replays that run, and stop for those that do not."""
        found = await self._store.submit(rows.running) if self._sharing.keeps_house else []
        there = {(one.subscription, one.begun): one for one in found}
        for key, task in list(self._tasks.items()):
            if key not in there or there[key].state is ReplayState.CANCELLING:
                task.cancel()
                await asyncio.wait((task,))
            if task.done():
                del self._tasks[key]
        for key, replay in there.items():
            if replay.state is ReplayState.CANCELLING:
                await self._end(replay, ReplayState.CANCELLED)
            elif key not in self._tasks:
                self._tasks[key] = asyncio.create_task(self._carry_out(replay))

    async def _carry_out(self, replay: Replay) -> None:
        """Replay, and note why that failed. The next look goes on where the store was away, and
        forgets what is for a subscription that has ended."""
        with suppress(StoreUnavailable, SubscriptionUnknown):
            try:
                await self._replay(replay)
                return
            except (StoreUnavailable, SubscriptionUnknown):
                raise
            except FilterError as error:
                why = error.text
            except ImportError as error:
                why = f"the archive is Parquet, and pyarrow is missing: {error}"
            except Exception as error:
                _log.exception("replay.broken", subscription=replay.subscription)
                why = f"{type(error).__name__}: {error}"[:500]
            await self._end(replay, ReplayState.FAILED, why)

    async def _replay(self, replay: Replay) -> None:
        """Replay what is left of *replay*; until that is done, cancelled, or its subscription
        ended."""
        entry = self._table.by_id(replay.subscription)
        if entry is None:
            await self._store.submit(rows.forget)
            return  # Not known here yet, or gone: looked at again.
        if self._archive is None:
            raise FilterError(Reason.UNAVAILABLE, "the gateway that keeps house has no archive")
        filter_ = selected(entry.subscription.filter, replay.selection)
        views = {one.view for one in filter_.contents if of_producer(one)}
        documents = await self._documents(views) if views else {}
        roots = roots_of(filter_, tenant_of(entry.subscription.owner))
        reader = ArchiveReader(self._archive.folder, roots)
        thread = FilterThread(filter_, documents)
        reading = self._readings[entry.id] = ArchiveReading(
            replay, entry, reader, thread, self._store, self._sharing,
            turns=self._turns, readings=lambda: len(self._readings),
            evaluate=self._adapter.evaluate, rules=self._rules,
        )  # fmt: skip
        try:
            if replay.until is None:
                await self._catch_up(reading, entry, self._archive)
            else:
                await self._archive.flush()
                await reading.read(replay.until)
        finally:
            thread.close()
            del self._readings[entry.id]
            self._ended += reading.replayed
        if reading.goes_on and reading.replay is not None:
            detail = f"damaged, left out: {', '.join(reader.damaged)}" if reader.damaged else ""
            await self._end(reading.replay, ReplayState.DONE, detail)

    async def _catch_up(self, reading: ArchiveReading, entry: Entry, archive: Archive) -> None:
        """Read until nothing is left that *entry* would not get as it is published."""
        lag = timedelta(seconds=LAG_OF_OTHERS if self._sharing.shared else LAG)
        former = timedelta.max
        while reading.goes_on and entry.reads_archive:
            behind = datetime.now(UTC) - lag
            # A message is in the archive when the last of its consumers has it, or it is held.
            await self._dispatchers.settled()
            await archive.flush()
            before = reading.replayed
            await reading.read(behind)
            left = datetime.now(UTC) - behind
            if is_near(left, former, lag, added=reading.replayed - before):
                await self._lifecycle.set_catching_up(entry, CatchingUp.SEAM)
            former = left
        if not (reading.goes_on and entry.subscription.policy.catching_up is CatchingUp.SEAM):
            return
        await self._settled()
        await archive.flush()
        await reading.read(datetime.now(UTC) + timedelta(seconds=SKEW), hurry=True)

    async def _settled(self) -> None:
        """Return when all that was accepted until now is settled, and offered to archives."""
        for _ in range(int(SLOW / PAUSE)):
            if not self._adapter.deferred:
                break
            await asyncio.sleep(PAUSE)
        await self._dispatchers.settled()
        if self._sharing.shared:
            await asyncio.sleep(LAG_OF_OTHERS)

    async def _end(self, replay: Replay, state: ReplayState, detail: str = "") -> None:
        """Note that *replay* has ended. A subscription that began so gets what is published from
        now on: that first, so that a crash in between is noticed."""
        entry = self._table.by_id(replay.subscription)
        if entry is not None and entry.subscription.policy.catching_up is not CatchingUp.DONE:
            await self._lifecycle.set_catching_up(entry, CatchingUp.DONE)
        ended = partial(rows.end, replay=replay, state=state, detail=detail)
        if not await self._store.submit(ended):
            return
        if state is ReplayState.FAILED:
            _log.warning("replay.failed", subscription=replay.subscription, why=detail)
        else:
            _log.info("replay.ended", subscription=replay.subscription, state=state.value)


def is_near(left: timedelta, former: timedelta, lag: timedelta, *, added: int) -> bool:
    """True if a reader is so near to what is published, which it follows at a distance of *lag*,
    that this may wait until the rest is read.

    Args:
        left: The time that is left to read. After the round before that was *former*.
        added: The deliveries of the last round, which took up what was left by the one before.
    """
    if left < lag * 1.2:
        return True
    if not NEARER * former < left < lag * MOST_LEFT:
        return False
    return added * (left / (former - lag)) <= FEW
