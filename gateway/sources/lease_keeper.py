"""The keeper: has each source of this gateway's share do what `held_leases` says, when it is due.

    round: what came is written, news are read; then for each source of the share
      nothing under way, due   tick: perhaps an exchange begins, in a task of its own
      an exchange ends         its outcome is an event: the next state, in the store first

A key is in the store before a producer is given it, and a subscription is live when its manager
is; what was granted in between and not stored is an orphan, which is ended at once where that can
be, else by its lease.
"""

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from gateway.delivery import PartitionShare, WorkSharing
from gateway.model.sources import Standing, State
from gateway.security.keys import new_key
from gateway.security.resource_addresses import shown
from gateway.sources.exchanges import Exchanges
from gateway.sources.held_leases import (
    BUSY,
    RENEW_AT,
    RENEW_AT_BY_CALL,
    WELL,
    Command,
    Confirmed,
    Ended,
    Event,
    Failed,
    Granted,
    Moment,
    Step,
    Tick,
    Timing,
    recovered,
    step,
)
from gateway.sources.pulling import Pulling
from gateway.sources.requester import (
    BookmarkRefused,
    FeatureRefused,
    NotAuthorized,
    ProducerRefused,
    ProducerUnreachable,
)
from gateway.sources.sources import Entry, Sources, SourceUnknown
from gateway.store import StoreUnavailable
from gateway.store.replicas import Fenced
from mediation.client import leasing_in
from mediation.eventing.management import EARLIEST_BOOKMARK
from mediation.model.messages import EndpointReference
from mediation.profiles import PRODUCERS

ROUND = 1.0
"""Seconds from one round to the next, at most."""
LEARN = 0.5
"""Seconds from one look at what other gateways changed to the next, at least."""
STORE_RETRY = 0.5
STORE_TRIES = 20
"""Seconds between attempts to write what a producer granted, and how many there are."""
ERROR_RETRY = 5.0
"""Seconds for which a source is left alone after an error of ours."""
DISMISSALS = 64
"""Unsubscribes under way that nobody waits for."""
Work = Callable[[], Coroutine[Any, Any, None]]
_log = structlog.get_logger("dragoman.sources")


class LeaseKeeper:
    """Keeps the sources of this gateway's share of the work.

    Args:
        pulling: Pulls at the sources that want it.
    """

    def __init__(
        self,
        sources: Sources,
        exchanges: Exchanges,
        sharing: WorkSharing,
        pulling: Pulling,
    ) -> None:
        self._sources = sources
        self._exchanges = exchanges
        self._sharing = sharing
        self._pulling = pulling
        self._tasks: set[asyncio.Task[None]] = set()
        self._dismissals = 0

    async def run(self) -> None:
        """Keep the sources, for ever. What is under way is given up when this ends: the store says
        where to go on."""
        clock, learnt = asyncio.get_running_loop().time, -math.inf
        try:
            while True:
                self._sources.changed.clear()
                wait = ROUND
                try:
                    if clock() - learnt >= LEARN:
                        await self._sources.learn()
                        learnt = clock()
                    await self._take_over()
                    wait = self._round()
                except StoreUnavailable:
                    pass  # What is known goes on; the rest is learnt later.
                except Exception:
                    _log.exception("sources.error")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._sources.changed.wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._pulling.close()
            with contextlib.suppress(StoreUnavailable):
                await self._sources.learn()

    async def _take_over(self) -> None:
        """Take on the sources that have come to this gateway's share, as the store has them, and
        leave those that have gone from it.

        Raises:
            StoreUnavailable: They are taken on the next time.
        """
        taken: dict[str, PartitionShare] = {}
        for entry in self._sources.entries:
            share = self._sharing.share_of(entry.id)
            if share is entry.share or entry.exchanging:
                continue
            self._sources.lose_share(entry)
            if share is not None:
                taken[entry.id] = share
        if not taken:
            return
        await self._sources.read(taken)
        for id_, share in taken.items():
            found = self._sources.by_id(id_)
            if found is not None:
                self._sources.take_share(found, share)
                self._sources.stand(found, recovered(found.standing, time.time()))

    def _round(self) -> float:
        """Begin what is due; the seconds until something else will be."""
        now, soon = time.time(), ROUND
        for entry in self._sources.entries:
            share = entry.share
            if share is None or entry.exchanging:
                continue
            if entry.standing.state in BUSY:  # An exchange was given up.
                self._sources.stand(entry, recovered(entry.standing, now))
            told, standing = entry.row.ended, entry.standing
            held = standing.manager or standing.former
            if told is not None and held is not None and told.key == standing.key:
                ended = Ended(f"The producer ended the subscription: {told.why}")
                self._tell_of(entry, share, ended)
                continue
            self._pulling.follow(entry, share, self._pull_failed)
            taken = step(entry.standing, Tick(), self._moment(entry))
            if taken.command is not None:
                self._exchange_with(entry, partial(self._follow, entry, share, taken))
                continue
            self._sources.stand(entry, taken.standing)
            due = taken.standing.due
            if due is not None:
                soon = min(soon, max(0.0, due - now))
        return soon

    def _pull_failed(self, entry: Entry, share: PartitionShare, failed: Failed) -> None:
        """Hear that events of *entry* could not be pulled: while something else is asked, its
        answer says more."""
        if entry.standing.state is State.LIVE and entry.share is share and not entry.exchanging:
            self._tell_of(entry, share, failed)

    def _tell_of(self, entry: Entry, share: PartitionShare, event: Event) -> None:
        """Have *entry* stand as it does after *event*, of which nothing follows at once."""
        self._exchange_with(entry, partial(self._stand_after, entry, share, event))

    def _exchange_with(self, entry: Entry, work: Work) -> None:
        """Begin *work*, an exchange with the producer of *entry*, in a task of its own."""
        self._sources.begin_exchange(entry)
        self._spawn(self._exchanging(entry, work))

    async def _exchanging(self, entry: Entry, work: Work) -> None:
        try:
            await work()
        except (Fenced, SourceUnknown):
            self._sources.lose_share(entry)
        except StoreUnavailable:  # The store says where to begin anew.
            await asyncio.sleep(STORE_RETRY)
        except Exception:
            _log.exception("source.error", source=entry.id)
            await asyncio.sleep(ERROR_RETRY)
        finally:
            self._sources.end_exchange(entry)

    async def _stand_after(self, entry: Entry, share: PartitionShare, event: Event) -> None:
        await self._stand(entry, share, step(entry.standing, event, self._moment(entry)).standing)

    async def _follow(self, entry: Entry, share: PartitionShare, taken: Step) -> None:
        """Carry out the command of *taken*, and those that follow from it."""
        while (command := taken.command) is not None:
            taken = await self._carry_out(entry, share, command, taken.standing)

    async def _carry_out(
        self, entry: Entry, share: PartitionShare, command: Command, standing: Standing
    ) -> Step:
        if command is Command.FORGET:
            await self._sources.forget(entry, share)
            return Step(standing)
        if command is Command.SUBSCRIBE:
            standing = replace(standing, pending=new_key())
            await self._sources.keep(entry, standing, share)
        else:
            self._sources.stand(entry, standing)
        event = await self._exchange(entry, share, command, standing)
        following = step(entry.standing, event, self._moment(entry))
        try:
            if following.command in (None, Command.DISMISS):
                await self._stand(entry, share, following.standing)
        except (Fenced, SourceUnknown, StoreUnavailable):
            if command is Command.SUBSCRIBE and isinstance(event, Granted) and event.manager:
                self._dismiss(entry, event.manager)  # An orphan.
            raise
        if following.command is Command.DISMISS:
            if standing.former is not None:
                self._dismiss(entry, standing.former)
            return Step(following.standing)
        return following

    async def _exchange(
        self, entry: Entry, share: PartitionShare, command: Command, standing: Standing
    ) -> Event:
        source, manager = entry.source, standing.manager
        if share.until <= asyncio.get_running_loop().time():
            raise Fenced(source.id)
        try:
            if command is Command.SUBSCRIBE:
                return await self._subscribe(entry, share, standing.pending or "")
            if command is Command.UNSUBSCRIBE:
                manager = manager or standing.former
            if manager is None:
                return Failed("There is no subscription.", refused=True)
            match command:
                case Command.RENEW:
                    return await self._exchanges.renew(source, manager)
                case Command.CHECK:
                    await self._exchanges.check(source, manager)
                    return Granted(time.time())
                case Command.PAUSE:
                    await self._exchanges.pause(source, manager)
                case Command.RESUME:
                    await self._exchanges.resume(source, manager)
                case _:
                    await self._exchanges.unsubscribe(source, manager)
        except ProducerRefused as refused:
            denied = isinstance(refused, NotAuthorized)
            return Failed(f"{_ASKED[command]}: {refused}", refused=True, unauthorized=denied)
        except ProducerUnreachable as unreachable:
            return Failed(f"{_ASKED[command]}: {unreachable}", refused=False)
        return Confirmed()

    async def _subscribe(self, entry: Entry, share: PartitionShare, key: str) -> Granted:
        """Subscribe; the context of a subscription that is pulled from is durable on return."""
        granted = await self._ask_for_subscription(entry, key)
        if granted.context is not None:
            try:
                await self._sources.bookmarks.keep_context(
                    entry.source, share, key, granted.context
                )
            except (Fenced, StoreUnavailable):
                if granted.manager is not None:
                    self._dismiss(entry, granted.manager)  # An orphan.
                raise
        return granted

    async def _ask_for_subscription(self, entry: Entry, key: str) -> Granted:
        """Subscribe, behind the last bookmark if there is one that the producer still knows; else
        with all that it has kept, if that is wanted and it has any."""
        source = entry.source
        if PRODUCERS[source.profile].management:
            bookmark = await self._sources.bookmarks.last(source)
            if bookmark is not None:
                try:
                    return await self._exchanges.subscribe(source, key, bookmark)
                except (BookmarkRefused, FeatureRefused):
                    await self._sources.bookmarks.refused(source)
        if source.existing:
            with contextlib.suppress(BookmarkRefused, FeatureRefused):
                return await self._exchanges.subscribe(source, key, EARLIEST_BOOKMARK)
        return await self._exchanges.subscribe(source, key)

    async def _stand(self, entry: Entry, share: PartitionShare, standing: Standing) -> None:
        """Have a source stand so, in the store first. A store that fails is waited for: what a
        producer granted would be lost.

        Raises:
            Fenced, SourceUnknown, StoreUnavailable
        """
        before = entry.standing
        for left in range(STORE_TRIES, 0, -1):
            try:
                await self._sources.keep(entry, standing, share)
                break
            except StoreUnavailable:
                if left == 1:
                    raise
                await asyncio.sleep(STORE_RETRY)
        self._tell(entry, before, standing)

    def _tell(self, entry: Entry, before: Standing, after: Standing) -> None:
        """Log what an operator wants to know, once."""
        said = {"source": entry.id, "producer": shown(entry.source.url)}
        was_well, is_well = before.state in WELL, after.state in WELL
        if was_well and after.state in (State.LOST, State.BACKING_OFF):
            _log.warning("source.lost", error=after.error, **said)
        elif not is_well and after.failures == 1 and not before.error:
            _log.warning("source.failing", error=after.error, **said)
        elif is_well and not was_well:
            recovered_from = before.error or None
            event = "source.recovered" if recovered_from else "source.live"
            _log.info(event, **said)

    def _dismiss(self, entry: Entry, manager: EndpointReference) -> None:
        """End a subscription that is not wanted any more; if that fails, its lease ends, and what
        it sends until then is refused. Where there is one subscription only, however often it is
        asked for, the later one would end, too."""
        if leasing_in(entry.source.spec) is not None:
            return
        if self._dismissals < DISMISSALS:
            self._dismissals += 1
            self._spawn(self._end(entry, manager))

    async def _end(self, entry: Entry, manager: EndpointReference) -> None:
        try:
            with contextlib.suppress(ProducerRefused, ProducerUnreachable):
                await self._exchanges.unsubscribe(entry.source, manager)
        finally:
            self._dismissals -= 1

    def _moment(self, entry: Entry) -> Moment:
        source = entry.source
        renew_at = RENEW_AT if leasing_in(source.spec) is None else RENEW_AT_BY_CALL
        timing = Timing(lease=source.lease, silence=source.silence, renew_at=renew_at)
        # Each of several gateways has its own address, and takes what is sent to any of them.
        location = "" if self._sharing.shared else self._exchanges.location(source)
        now, chance = time.time(), random.random()
        return Moment(entry.row.wanted, timing, now, chance, entry.last_event, location)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_ASKED = {
    Command.SUBSCRIBE: "Subscribe",
    Command.RENEW: "Renew",
    Command.CHECK: "GetStatus",
    Command.PAUSE: "PauseSubscription",
    Command.RESUME: "ResumeSubscription",
    Command.UNSUBSCRIBE: "Unsubscribe",
}
