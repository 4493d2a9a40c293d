"""Counts of what the store holds, for the metrics and the overview; not too often where that is
much.

Counting looks at every subscription, mailbox, waiting delivery and dead letter, and meanwhile the
store does nothing else. Of many it is done now and then alone, however often the metrics are asked
for.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from gateway.delivery import Conservation, Dispatchers
from gateway.observing.samples import Sample, gauge
from gateway.publishing.spool import Spool
from gateway.store import Store, StoreUnavailable, dead_letter_counts, mailboxes, waiting_deliveries
from gateway.store.dead_letter_counts import Died
from gateway.store.spool import SpoolSize

FEW = 10_000
"""Rows that are counted on every request; more are counted seldom."""
WAITED = 3.0
"""Seconds that the store gets to say what it holds, before the metrics do without."""
UNREAD = 60.0
"""Seconds that the counts are kept that came when nobody waited for them any more."""
KEPT = 1e-5
"""Seconds that the counts of more are kept, for each row: to count one takes a thirtieth of that,
or less."""
LATELY = 3600.0
"""Seconds for which dead letters count as new."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The conservation law, what is in the spool, and mailboxes with the messages and bytes in
    them.

    Attributes:
        oldest: When the delivery came that waits the longest in the store, in POSIX seconds; None
            where nothing waits there.
        died: The newest dead letters by their reason, as `dead_letter_counts.by_reason` says.
    """

    conservation: Conservation
    spool: SpoolSize
    mailboxes: tuple[int, int, int]
    oldest: float | None = None
    died: Mapping[str, Died] = field(default_factory=dict)

    def metrics(self) -> Iterator[Sample]:
        """The numbers of the store, as of now."""
        yield from self.conservation.metrics()
        yield from self.spool.metrics(now=time.time())
        age = 0.0 if self.oldest is None else max(0.0, time.time() - self.oldest)
        yield gauge("waiting_oldest_seconds", "Since the oldest that waits came.", age)
        number, messages, octets = self.mailboxes
        yield gauge("mailboxes", "Mailboxes.", number)
        yield gauge("mailbox_messages", "Messages in mailboxes.", messages)
        yield gauge("mailbox_bytes", "Bytes of the messages in mailboxes.", octets)


class Counting:
    """Counts with *count*, once for all who ask at a time; *subscriptions* says how many there
    are."""

    def __init__(
        self, count: Callable[[], Awaitable[Counts]], *, subscriptions: Callable[[], int]
    ) -> None:
        self._count = count
        self._subscriptions = subscriptions
        self._counting: asyncio.Task[Counts] | None = None
        self._waiting = 0
        """Those who wait for what is being counted."""
        self._counts: Counts | None = None
        self._unread = False
        """Nobody waited for them: they are for the next one who asks."""
        self._until = 0.0

    async def metrics(self) -> Iterable[Sample]:
        """The numbers of the store; none while it cannot be read."""
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(WAITED):
                return list((await self.counts()).metrics())
        return ()

    async def counts(self) -> Counts:
        """The counts of this moment, or, where there is much, of one not long ago.

        Who gives up does not end the counting: the next one who asks has it.

        Raises:
            Whatever *count* does.
        """
        if self._counts is not None and asyncio.get_running_loop().time() < self._until:
            counts, unread = self._counts, self._unread
            if unread:
                self._counts, self._unread = None, False
            return counts
        if self._counting is None or self._counting.done():
            self._counting = asyncio.create_task(self._count_anew())
        self._waiting += 1
        try:
            return await asyncio.shield(self._counting)
        finally:
            self._waiting -= 1

    async def _count_anew(self) -> Counts:
        counts = await self._count()
        rows = self._subscriptions() + counts.mailboxes[0]
        rows += counts.conservation.waiting + counts.conservation.dead_letters
        kept = KEPT * rows if rows > FEW else 0.0
        self._unread = not self._waiting and kept < UNREAD
        self._counts = counts
        self._until = asyncio.get_running_loop().time() + (UNREAD if self._unread else kept)
        return counts


async def count(store: Store, dispatchers: Dispatchers, spool: Spool) -> Counts:
    """Count all.

    Raises:
        StoreUnavailable: The store cannot be read.
    """
    died = partial(dead_letter_counts.by_reason, since=time.time() - LATELY)
    return Counts(
        await dispatchers.conservation(),
        await spool.size(),
        await store.submit(mailboxes.overall),
        await store.submit(waiting_deliveries.oldest),
        await store.submit(died),
    )
