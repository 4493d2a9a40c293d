"""Fetches the events of sources in mode Pull of WS-Management, and of cameras' pull points: one
request waits at each of them.

    Pull in a context --> events --> durable --> the next context, and the bookmark, durable --+
         ^                                                                                     |
         +-------------------------------------------------------------------------------------+

The next Pull is what tells the source that the events before it have arrived, so it is not sent
before they are durable. A crash in between has them fetched again, in the context before. Where the
source does not know a context any more, its subscription is over, and the next one goes on behind
the last bookmark. A pull point has no context but its address: the camera gives each event once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import structlog

from filters import Reason, Refused
from gateway.delivery import PartitionShare
from gateway.model.sources import EndTold, State, Wanted
from gateway.security.keys import message_urn
from gateway.sources.exchanges import Exchanges
from gateway.sources.held_leases import LONGEST_ERROR, UNAUTHORIZED, Failed
from gateway.sources.requester import (
    ContextRefused,
    NotAuthorized,
    NothingYet,
    ProducerRefused,
    ProducerUnreachable,
)
from gateway.sources.sources import Entry, Sources, SourceUnknown
from gateway.store import StoreUnavailable
from gateway.store.replicas import Fenced
from mediation.eventing.management import Pulled, PulledEvent
from mediation.model.delivery_modes import Mode

PAUSE = 1.0
"""Seconds from one Pull to the next, at least, at sources that do not wait for events."""
FIRST, LONGEST = 1.0, 300.0
"""Seconds from a failure to the next attempt; twice as many after each further one, at most."""
CLOSING = 5.0
"""Seconds for events that have come to become durable when the gateway stops."""
_PASSING = frozenset({Reason.UNAVAILABLE, Reason.RATE, Reason.INTERNAL})
"""Why events are not published that are tried again; others never would be."""
_OVER = frozenset({State.IDLE, State.REMOVING, State.REMOVED})
_log = structlog.get_logger("dragoman.sources")

TakeIn = Callable[[Entry, Sequence[PulledEvent]], Awaitable[None]]
"""Publishes events of a source; they are durable on return."""
Tell = Callable[[Entry, PartitionShare, Failed], None]
"""Hears that a Pull failed."""


class Pulling:
    """Pulls at the sources that this gateway keeps.

    A subscription that was given up for another one is pulled from until that one is there.
    """

    def __init__(
        self, sources: Sources, exchanges: Exchanges, take_in: TakeIn, *, pause: float = PAUSE
    ) -> None:
        self._sources = sources
        self._exchanges = exchanges
        self._take_in = take_in
        self._pause = pause
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}

    def follow(self, entry: Entry, share: PartitionShare, tell: Tell) -> None:
        """Begin to pull at a source that has a subscription, unless that is done already."""
        key = entry.standing.key
        if entry.source.mode is not Mode.PULL or key is None or key in self._tasks:
            return
        if self._is_wanted(entry, share, key):
            work = self._pull(entry, share, key, tell)
            task = self._tasks[key] = asyncio.get_running_loop().create_task(work)
            task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def close(self) -> None:
        """Stop; what has come becomes durable."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_wanted(self, entry: Entry, share: PartitionShare, key: str) -> bool:
        standing = entry.standing
        return (
            entry.share is share
            and share.until > asyncio.get_running_loop().time()
            and entry.row.wanted is Wanted.ON
            and standing.key == key
            and standing.state not in _OVER
            and (standing.manager or standing.former) is not None
        )

    async def _pull(self, entry: Entry, share: PartitionShare, key: str, tell: Tell) -> None:
        """Pull in the subscription with *key*, until it is over."""
        try:
            await asyncio.sleep(self._delay(entry))
            context = await self._sources.bookmarks.context(entry.source, key)
            why = "" if context is not None else "nobody knows its context any more"
            while context is not None and self._is_wanted(entry, share, key):
                began = asyncio.get_running_loop().time()
                try:
                    pulled = await self._fetch(entry, context)
                except ContextRefused as gone:
                    why = str(gone)
                    break
                except (ProducerRefused, ProducerUnreachable) as failed:
                    self._failures[entry.id] = self._failures.get(entry.id, 0) + 1
                    refused = isinstance(failed, ProducerRefused)
                    tell(entry, share, Failed(f"Pull: {failed}", refused=refused))
                    denied = isinstance(failed, NotAuthorized)
                    await asyncio.sleep(max(self._delay(entry), UNAUTHORIZED if denied else 0.0))
                    continue
                self._failures.pop(entry.id, None)
                self._sources.count_events(entry, 0)
                if not await self._settled(entry, share, key, pulled, context):
                    return
                context = pulled.context or context
                if pulled.over:
                    why = "there are no more events"
                    break
                left = began + self._pause - asyncio.get_running_loop().time()
                if not pulled.events and left > 0:
                    await asyncio.sleep(left)
            if why and entry.standing.key == key:
                told = EndTold(key, f"Pull: {why}"[:LONGEST_ERROR])
                await self._sources.end(entry, told)
        except (Fenced, SourceUnknown):
            pass  # Another gateway goes on.
        except StoreUnavailable:
            await asyncio.sleep(self._pause)
        except Exception:
            _log.exception("source.error", source=entry.id)
            await asyncio.sleep(LONGEST / 60)

    def _delay(self, entry: Entry) -> float:
        failures = self._failures.get(entry.id, 0)
        return min(LONGEST, FIRST * 2.0 ** (min(failures, 30) - 1)) if failures else 0.0

    async def _fetch(self, entry: Entry, context: bytes) -> Pulled:
        standing = entry.standing
        manager = standing.manager or standing.former
        try:
            return await self._exchanges.pull(entry.source, manager, context)
        except NothingYet:
            return Pulled()

    async def _settled(
        self, entry: Entry, share: PartitionShare, key: str, pulled: Pulled, context: bytes
    ) -> bool:
        """Have what was pulled durable, also when the gateway stops; whether it is."""
        named = tuple(replace(one, id=one.id or message_urn()) for one in pulled.events)
        work = self._settle(entry, share, key, replace(pulled, events=named), context)
        settling = asyncio.get_running_loop().create_task(work)
        try:
            return await asyncio.shield(settling)
        except asyncio.CancelledError:
            await asyncio.wait({settling}, timeout=CLOSING)
            settling.cancel()
            raise

    async def _settle(
        self, entry: Entry, share: PartitionShare, key: str, pulled: Pulled, context: bytes
    ) -> bool:
        for together in _passed_together(pulled.events):
            if not await self._published(entry, share, key, together):
                return False
        following = pulled.context or context
        if following == context and pulled.bookmark is None:
            return True
        while True:
            try:
                await self._sources.bookmarks.keep_context(
                    entry.source, share, key, following, pulled.bookmark
                )
                return True
            except StoreUnavailable:
                if not self._is_wanted(entry, share, key):
                    return False
                await asyncio.sleep(self._pause)

    async def _published(
        self, entry: Entry, share: PartitionShare, key: str, events: Sequence[PulledEvent]
    ) -> bool:
        """Publish *events*, however long that takes; whether they are durable. One that can never
        be published is left out, lest no other comes any more."""
        while events:
            try:
                await self._take_in(entry, events)
                return True
            except Refused as refused:
                if refused.reason in _PASSING:
                    if not self._is_wanted(entry, share, key):
                        return False
                    await asyncio.sleep(refused.retry_after or self._pause)
                elif len(events) == 1:
                    _log.warning("source.event-refused", source=entry.id, error=refused.text)
                    return True
                else:
                    each = [await self._published(entry, share, key, [one]) for one in events]
                    return all(each)
        return True


def _passed_together(events: Sequence[PulledEvent]) -> Iterator[Sequence[PulledEvent]]:
    """*events* in pieces that are published at once, in their order: each that another gateway of
    ours has handed over is one, for it has passed gateways of its own."""
    for came_here_first, some in groupby(events, key=lambda event: event.hops is None):
        if came_here_first:
            yield list(some)
        else:
            yield from ([event] for event in some)
