"""Takes what an adapter yields, under a deadline."""

import asyncio

from adapters.protocol import Adapter, Delivery


class Inbox:
    """Takes what an adapter yields, each wait under a deadline of some seconds. What comes later is
    taken by the next wait."""

    def __init__(self, adapter: Adapter, deadline: float) -> None:
        self._deliveries = adapter.deliveries()
        self._deadline = deadline
        self._coming: asyncio.Future[Delivery] | None = None
        """The next message, for which a wait was too short: cancelled, it would have closed the
        generator that `deliveries` may be, and the next wait would end at once."""

    async def next(self) -> Delivery:
        """Take the next message.

        Raises:
            TimeoutError: There is none within the deadline.
        """
        if self._coming is None:
            self._coming = asyncio.ensure_future(anext(self._deliveries))
            self._coming.add_done_callback(_note_failure)
        async with asyncio.timeout(self._deadline):
            await asyncio.wait((self._coming,))
        coming, self._coming = self._coming, None
        return coming.result()

    async def take(self, count: int, *, settle: bool = True) -> list[Delivery]:
        """Take the next *count* messages."""
        taken = []
        for _ in range(count):
            delivery = await self.next()
            if settle:
                delivery.settle()
            taken.append(delivery)
        return taken

    async def until(self, *last: str) -> list[str]:
        """Settle messages until those with the ids *last* have come, which are left out. Returns
        the ids of the others."""
        ids: list[str] = []
        missing = set(last)
        while missing:
            delivery = await self.next()
            delivery.settle()
            if delivery.notification.id in missing:
                missing.discard(delivery.notification.id)
            else:
                ids.append(delivery.notification.id)
        return ids


def _note_failure(coming: "asyncio.Future[Delivery]") -> None:
    """Have asyncio log no failure of a wait whose trial is over."""
    if not coming.cancelled():
        coming.exception()
