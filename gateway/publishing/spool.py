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

What the broker will never take is set aside in the same table, where operators see it, have it
tried again, or discard it. Where nothing is spooled its publisher is told instead; so it is
whenever the like of it was refused lately.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import structlog

from adapters import (
    AdapterFailed,
    AdapterUnavailable,
    Capabilities,
    PublicationRefused,
    Refusal,
)
from filters import Reason, Refused
from gateway.observing.samples import Sample, counter
from gateway.store import Store, StoreUnavailable
from gateway.store import spool as rows
from gateway.store.spool import Spooled, SpoolEntry, SpoolSize, SpoolUnreadable, topic_of
from mediation.model.messages import Notification

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
STRUCK = 3
"""How often a message makes the adapter fail, while others are published, before it is set
aside."""

_log = structlog.get_logger("dragoman.spool")


class System(Protocol):
    """The broker, behind its adapter."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def publish(self, notifications: Sequence[Notification]) -> None: ...


class Publisher(Protocol):
    """A way to publish to the broker, as `Spool` has it."""

    def refusals_of(self, notifications: Sequence[Notification]) -> list[Refusal]: ...

    async def publish(
        self, notifications: Sequence[Notification], *, kept: bool = False
    ) -> None: ...


class Spool:
    """Publishes through *adapter*, or keeps in *store* what that cannot take.

    Args:
        messages: How many may lie in the spool, and how many ``octets``.
        spools: Whether it keeps anything of publishers who can be told; else it publishes what an
            earlier run left, and sets aside what is refused when nobody waits for the answer.
        shared: Several gateways have the store: what waits is asked of it, not remembered.
        drains: Whether it is this gateway that publishes what waits.
    """

    def __init__(
        self,
        store: Store,
        adapter: System,
        *,
        messages: int,
        octets: int,
        spools: bool = True,
        shared: bool = False,
        drains: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store = store
        self._adapter = adapter
        self._messages = messages
        self._octets = octets
        self._spools = spools
        self._shared = shared
        self._drains = drains
        self._waiting: Counter[str] = Counter()
        """Messages that wait or are being put in, by topic, where nobody else puts any in."""
        self._left = spools
        """Whether something may wait, where several gateways have the store."""
        self._stuck = True
        """Whether the broker has taken nothing of what waits, as far as is known."""
        self._failing: set[str] = set()
        """Topics of what waits of which the broker did not take the last that was tried."""
        self._come = asyncio.Event()
        self._fills = False
        self._drained = 0
        self._cautious = False
        """Something failed: messages are tried one by one."""
        self._failures = 0
        self._passed_over: dict[str, float] = {}
        self._struck: dict[int, tuple[int, int]] = {}
        """How often messages made the adapter fail, and what was published before the first."""
        self._published = 0
        self.set_aside = 0
        """Messages that were set aside since the start."""

    async def start(self) -> int:
        """Learn what an earlier run left; how many messages wait.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        waiting = await self._store.submit(rows.waiting)
        self._left = self._spools or bool(waiting)
        if not self._shared:
            self._waiting.update(waiting)
        return sum(waiting.values())

    def metrics(self) -> Iterator[Sample]:
        """What was set aside."""
        text = "Notifications that were set aside because the broker refuses them."
        yield counter("spool_set_aside", text, self.set_aside)

    async def size(self) -> SpoolSize:
        """The size of the spool.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        return await self._store.submit(rows.size)

    def refusals_of(self, notifications: Sequence[Notification]) -> list[Refusal]:
        """Those of *notifications* of which it is known that the broker refuses them."""
        known = self._adapter.capabilities.refusals
        if known is None:
            return []
        return [Refusal(one, why) for one in notifications if (why := known.refusal_of(one))]

    async def publish(self, notifications: Sequence[Notification], *, kept: bool = False) -> None:
        """Return once the broker, or the store, holds all of *notifications* durably. With *kept*
        what is refused is set aside: there is nobody who could be told.

        Raises:
            AdapterUnavailable: The broker cannot take them, and there is no room for them here.
            PublicationRefused: The broker will never take some of them; all others are held.
            StoreUnavailable: The store cannot be asked.
        """
        refusals = [] if kept else self.refusals_of(notifications)
        if not refusals:
            await self._publish(notifications, kept=kept)
            return
        if rest := PublicationRefused(refusals).taken(notifications):
            try:
                await self._publish(rest, kept=kept)
            except PublicationRefused as more:
                raise PublicationRefused([*refusals, *more.refusals]) from more
        raise PublicationRefused(refusals)

    async def _publish(self, notifications: Sequence[Notification], *, kept: bool) -> None:
        cause = None
        if not await self._is_behind(notifications):
            try:
                await self._adapter.publish(notifications)
            except PublicationRefused as refused:
                if not (self._spools or kept):
                    raise
                await self._put_aside(refused)
                return
            except AdapterUnavailable as error:
                if not self._spools:
                    raise
                cause = error.with_traceback(None)
            else:
                self._fills = False
                return
        elif not self._spools and (
            self._stuck or self._failing & set(map(topic_of, notifications))
        ):
            raise AdapterUnavailable("older messages of the topic wait for the broker")
        await self._put(notifications, cause)

    async def _put_aside(self, refused: PublicationRefused) -> None:
        """Set aside what is refused, durably.

        Raises:
            StoreUnavailable: It cannot be.
        """
        put = self._store.submit(
            partial(
                rows.put_aside,
                refused=[(each.notification, each.words) for each in refused.refusals],
                now=time.time(),
                messages=self._messages,
                octets=self._octets,
            )
        )
        dropped = await asyncio.shield(put)
        for each in refused.refusals:
            self._note_aside(each.notification.id, topic_of(each.notification), each.words)
        if dropped:
            _log.error("spool.dropped", messages=dropped, reason="too many are set aside")

    def _note_aside(self, id: str, topic: str, why: str) -> None:
        self.set_aside += 1
        _log.error("spool.refused", id=id, topic=topic, reason=why)

    async def _is_behind(self, notifications: Sequence[Notification]) -> bool:
        """Whether something waits on a topic of *notifications*."""
        if not (self._left if self._shared else self._waiting):
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
                if self._shared and not self._spools:
                    self._left = bool(await self._store.submit(rows.waiting))
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
            try:
                batch = await self._oldest()
            except SpoolUnreadable as unreadable:
                await self._set_aside(unreadable.number, "", unreadable.topic, str(unreadable))
                continue
            if not batch:
                break
            if not await self._send(batch):
                self._passed_over.clear()
                self._stuck = True
                return False
        if self._drained and not self._passed_over:
            _log.info("spool.drained", messages=self._drained)
            self._drained = 0
        return not self._passed_over

    async def _oldest(self) -> list[Spooled]:
        return await self._store.submit(
            partial(
                rows.oldest,
                messages=1 if self._cautious else BATCH_MESSAGES,
                octets=BATCH_BYTES,
                without=list(self._passed_over),
            )
        )

    async def _send(self, batch: Sequence[Spooled]) -> bool:
        """Publish *batch*, and forget it; False where the broker takes nothing."""
        known = self._adapter.capabilities.refusals
        if known is not None:
            for each in batch:
                if each.retried:
                    known.forget(each.notification)
        try:
            await self._adapter.publish([each.notification for each in batch])
        except PublicationRefused as refused:
            await self._forget_sent(batch, refused)
        except Exception as error:
            if not isinstance(error, Refused):  # A defect must not end it for good.
                _log.exception("spool.failed")
            return await self._not_sent(batch, error)
        else:
            await self._forget_sent(batch, None)
        return True

    async def _forget_sent(
        self, batch: Sequence[Spooled], refused: PublicationRefused | None
    ) -> None:
        """Forget what the broker has of *batch*, and set aside what it refuses."""
        words = [None if refused is None else refused.words_for(one.notification) for one in batch]
        for each, why in zip(batch, words, strict=True):
            if why is not None:
                await self._set_aside(each.number, each.notification.id, each.topic, why)
        sent = [each for each, why in zip(batch, words, strict=True) if why is None]
        if sent:
            self._forget(await self._store.submit(partial(rows.remove, those=sent)))
        self._failures = 0
        self._failing -= {each.topic for each in sent}
        self._cautious = self._stuck = False
        self._drained += len(sent)
        self._published += len(sent)

    async def _not_sent(self, batch: Sequence[Spooled], error: Exception) -> bool:
        """Take *error*, with which *batch* was not published; False where the broker takes
        nothing."""
        if len(batch) > 1:
            self._cautious = True
            return True
        [one] = batch
        why = self._never(one, error)
        if why is not None:
            await self._set_aside(one.number, one.notification.id, one.topic, why)
            return True
        self._failures += 1
        self._failing.add(one.topic)
        self._passed_over[one.topic] = time.monotonic() + PASSED_OVER
        return self._failures % FAILURES != 0

    def _never(self, one: Spooled, error: Exception) -> str | None:
        """Why *one*, which failed alone with *error*, will never be published; None where it
        may."""
        if isinstance(error, Refused) and error.reason is not Reason.UNAVAILABLE:
            return error.text
        if isinstance(error, Refused) and not isinstance(error, AdapterFailed):
            return None
        times, before = self._struck.pop(one.number, (0, self._published))
        if times + 1 >= STRUCK and self._published > before:
            return f"the adapter fails over it: {error}"
        if len(self._struck) < self._messages:
            self._struck[one.number] = times + 1, before
        return None

    async def _set_aside(self, number: int, id: str, topic: str, why: str) -> None:
        now = time.time()
        await self._store.submit(partial(rows.set_aside, number=number, why=why, now=now))
        self._note_aside(id, topic, why)
        self._struck.pop(number, None)
        self._failing.discard(topic)
        self._forget({topic: 1})

    # What operators do.

    async def listed(self, refused: bool | None, *, after: int, limit: int) -> list[SpoolEntry]:
        """Messages of the spool in their order: set aside, or waiting, or, with None, both."""
        listed = partial(rows.listed, refused=refused, after=after, limit=limit)
        return await self._store.submit(listed)

    async def show(self, number: int) -> tuple[SpoolEntry, bytes] | None:
        """One message, and its body; None where there is none."""
        return await self._store.submit(partial(rows.find, number=number))

    async def retry(self, numbers: Collection[int] | None) -> int:
        """Publish again what was set aside, all of it or *numbers* of it; how many are tried."""
        again = await self._store.submit(partial(rows.retry, numbers=numbers))
        if not self._shared:
            self._waiting.update(again)
        self._left = True
        self._come.set()
        return sum(again.values())

    async def discard(self, numbers: Collection[int] | None) -> int:
        """Forget messages *numbers*, or all that are set aside; how many."""
        discard = partial(rows.discard, numbers=numbers)
        count, waited = await self._store.submit(discard)
        self._forget(waited)
        return count
