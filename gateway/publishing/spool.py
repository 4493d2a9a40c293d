"""The spool: notifications accepted while the broker could not take them, and their way to it.

    publish --- its topics wait here? --no--> the broker --confirmed--> 202
                        |                       |
                        yes                     +-- does not take it
                        |                       |
                        +----> the store <------+   committed: 202; no room: 503
                                   |
                                 drain: the oldest first, each removed once the broker has confirmed

While a message of a topic waits, new ones of the topic queue behind it, also those that come to
another gateway. A crash between confirmation and removal publishes a message again, with its id.

One topic that the broker does not take (a queue that is full) holds up no other for long: after a
failure messages are tried one by one, and the topic of one that fails is passed over for a while.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import structlog

from adapters import AdapterUnavailable
from filters import Reason, Refused
from gateway.store import Store, StoreUnavailable
from gateway.store import spool as rows
from gateway.store.spool import Spooled, SpoolSize, topic_of
from mediation import Notification

BATCH_MESSAGES, BATCH_BYTES = 200, 4 * 2**20
"""Messages, and bytes of them, that are published at a time."""
LOOK = 1.0
"""Seconds from one look for what other gateways have spooled to the next."""
AGAIN = 0.5
"""Seconds until a broker that took nothing is tried again."""
PASSED_OVER = 1.0
"""Seconds until a topic that failed is tried again."""
FAILURES = 3
"""Topics in a row that fail before it counts as a failure of the broker."""
RETRY_AFTER = 5.0
"""Seconds after which a publisher that found the spool full may come again."""

_log = structlog.get_logger("dragoman.spool")


class Publisher(Protocol):
    """A way to publish to the broker."""

    async def publish(self, notifications: Sequence[Notification]) -> None: ...


class Spool:
    """Publishes through *adapter*, or keeps in *store* what that cannot take.

    Args:
        messages: How many may lie in the spool, and how many ``octets``.
        shared: Several gateways have the store: what waits is asked of it, not remembered.
        drains: Whether it is this gateway that publishes what waits.
    """

    def __init__(
        self,
        store: Store,
        adapter: Publisher,
        *,
        messages: int,
        octets: int,
        shared: bool = False,
        drains: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store = store
        self._adapter = adapter
        self._messages = messages
        self._octets = octets
        self._shared = shared
        self._drains = drains
        self._waiting: Counter[str] = Counter()
        """Messages that wait or are being put in, by topic, where nobody else puts any in."""
        self._come = asyncio.Event()
        self._fills = False
        self._drained = 0
        self._cautious = False
        """Something failed: messages are tried one by one."""
        self._failures = 0
        self._passed_over: dict[str, float] = {}

    async def start(self) -> int:
        """Learn what an earlier run left; how many messages wait.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        waiting = await self._store.submit(rows.waiting)
        if not self._shared:
            self._waiting.update(waiting)
        return sum(waiting.values())

    async def size(self) -> SpoolSize:
        """The size of the spool.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        return await self._store.submit(rows.size)

    async def publish(self, notifications: Sequence[Notification]) -> None:
        """Return once the broker, or the store, holds all of *notifications* durably.

        Raises:
            AdapterUnavailable: The broker cannot take them, and there is no room for them here.
            StoreUnavailable: The store cannot be asked.
        """
        cause = None
        if not await self._is_behind(notifications):
            try:
                await self._adapter.publish(notifications)
            except AdapterUnavailable as error:
                cause = error.with_traceback(None)
            else:
                self._fills = False
                return
        await self._put(notifications, cause)

    async def _is_behind(self, notifications: Sequence[Notification]) -> bool:
        """Whether something waits on a topic of *notifications*."""
        if not self._shared and not self._waiting:
            return False
        topics = {topic_of(each) for each in notifications}
        if self._shared:
            return await self._store.submit(partial(rows.waits, topics=topics))
        return any(self._waiting[topic] > 0 for topic in topics)

    async def _put(
        self, notifications: Sequence[Notification], cause: AdapterUnavailable | None
    ) -> None:
        coming = Counter(map(topic_of, notifications))
        put = self._store.submit(
            partial(
                rows.put,
                notifications=notifications,
                now=time.time(),
                messages=self._messages,
                octets=self._octets,
            )
        )
        self._waiting.update(coming)
        # Not by whoever waits here: a publisher that gives up does not take anything back.
        put.add_done_callback(partial(self._has_come, coming))
        try:
            added = await asyncio.shield(put)
        finally:  # Else a failure would hold it, and it the failure.
            del put
        if added is None:
            after = max(RETRY_AFTER, cause.retry_after if cause else 0.0)
            raise AdapterUnavailable(
                "the broker takes no messages now, and the spool is full", retry_after=after
            ) from cause
        if cause is not None and not self._fills:
            self._fills = True
            _log.warning("spool.fills", reason=cause.text)

    def _has_come(
        self, coming: Mapping[str, int], put: "asyncio.Future[Mapping[str, int] | None]"
    ) -> None:
        self._forget(coming)
        if not put.cancelled() and put.exception() is None and (added := put.result()):
            if not self._shared:
                self._waiting.update(added)
            self._come.set()

    def _forget(self, counts: Mapping[str, int]) -> None:
        for topic, count in counts.items():
            self._waiting[topic] -= count
            if self._waiting[topic] <= 0:
                del self._waiting[topic]

    async def run(self) -> None:
        """Publish what waits, for ever."""
        while True:
            self._come.clear()
            try:
                failing = self._drains() and not await self._drain()
            except StoreUnavailable:
                failing = True
            if failing:
                await asyncio.sleep(AGAIN)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK if self._shared else None):
                    await self._come.wait()

    async def _drain(self) -> bool:
        """Publish until nothing waits; False where something is left that the broker did not
        take."""
        while self._drains():
            now = time.monotonic()
            for topic, until in list(self._passed_over.items()):
                if until <= now:
                    del self._passed_over[topic]
                    self._cautious = True
            batch = await self._store.submit(
                partial(
                    rows.oldest,
                    messages=1 if self._cautious else BATCH_MESSAGES,
                    octets=BATCH_BYTES,
                    without=list(self._passed_over),
                )
            )
            if not batch:
                break
            if not await self._send(batch):
                self._passed_over.clear()
                return False
        if self._drained and not self._passed_over:
            _log.info("spool.drained", messages=self._drained)
            self._drained = 0
        return not self._passed_over

    async def _send(self, batch: Sequence[Spooled]) -> bool:
        """Publish *batch*, and forget it; False where the broker takes nothing."""
        try:
            await self._adapter.publish([each.notification for each in batch])
        except Exception as error:
            if not isinstance(error, Refused):  # A defect must not end it for good.
                _log.exception("spool.failed")
            if len(batch) > 1:
                self._cautious = True
                return True
            if isinstance(error, Refused) and error.reason is not Reason.UNAVAILABLE:
                await self._set_aside(batch[0], error.text)
                return True
            self._failures += 1
            self._passed_over[batch[0].topic] = time.monotonic() + PASSED_OVER
            return self._failures % FAILURES != 0
        self._failures = 0
        self._cautious = False
        self._drained += len(batch)
        self._forget(await self._store.submit(partial(rows.remove, those=batch)))
        return True

    async def _set_aside(self, one: Spooled, why: str) -> None:
        _log.error("spool.refused", id=one.notification.id, topic=one.topic, reason=why)
        await self._store.submit(partial(rows.set_aside, number=one.number, why=why))
        self._forget({one.topic: 1})
