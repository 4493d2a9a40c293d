"""The contract of an adapter, as tests for pytest."""

import asyncio
from pathlib import Path

import pytest

from adapters.protocol import (
    AdapterUnavailable,
)
from adapters.testing.interests import InterestContract
from adapters.testing.messages import MessageContract
from adapters.testing.order import OrderContract
from adapters.testing.outages import OutageContract
from adapters.testing.refusals import RefusalContract
from adapters.testing.settlement import SettlementContract

QUICK = 2.0
"""Seconds within which an adapter closes."""


class AdapterContract(
    MessageContract,
    InterestContract,
    OrderContract,
    SettlementContract,
    OutageContract,
    RefusalContract,
):
    """The tests of any adapter. Override `make_adapter`, and say what the system is like."""

    async def test_closing_is_quick_and_ends_the_deliveries(self, data: Path) -> None:
        adapter = self.make_adapter(data)
        await adapter.start([self.interest("storm")])
        inbox = self.inbox(adapter)
        await adapter.publish(self.notifications(3))
        await inbox.take(3, settle=False)
        waiting = asyncio.create_task(inbox.next())
        await asyncio.sleep(0)
        async with asyncio.timeout(QUICK):
            await adapter.close()
            with pytest.raises(StopAsyncIteration):
                await waiting
            await adapter.close()

    async def test_a_closed_adapter_takes_nothing(self, data: Path) -> None:
        async with self.running(data) as adapter:
            pass
        with pytest.raises(AdapterUnavailable):
            await adapter.publish(self.notifications(1))

    async def test_settling_after_the_end_does_nothing(self, data: Path) -> None:
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(self.notifications(1))
            (delivery,) = await self.inbox(adapter).take(1, settle=False)
        delivery.settle()
