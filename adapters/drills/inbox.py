"""Takes what an adapter yields, under a deadline."""

import asyncio

from adapters.protocol import Adapter, Delivery


class Inbox:
    """Takes what an adapter yields, each wait under a deadline of some seconds."""

    def __init__(self, adapter: Adapter, deadline: float) -> None:
        self._deliveries = adapter.deliveries()
        self._deadline = deadline

    async def next(self) -> Delivery:
        async with asyncio.timeout(self._deadline):
            return await anext(self._deliveries)

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
