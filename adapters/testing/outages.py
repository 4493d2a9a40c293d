"""The contract of an adapter: its system goes away, and comes back."""

import asyncio
from pathlib import Path

import pytest

from adapters.drills.inbox import Inbox
from adapters.protocol import (
    AdapterUnavailable,
)
from adapters.testing.trials import AdapterTrials


class OutageContract(AdapterTrials):
    """The system goes away, and comes back."""

    async def test_nothing_is_published_during_an_outage(self, data: Path) -> None:
        """A publisher is told, soon, that it has to try again; nobody is left waiting."""
        self.needs_outages()
        async with self.running(data, self.interest("storm")) as adapter, self.interrupted():
            await self.connection(adapter, up=False)
            async with asyncio.timeout(self.outage):
                with pytest.raises(AdapterUnavailable) as refused:
                    await adapter.publish(self.notifications(1))
            assert refused.value.retry_after > 0

    async def test_it_says_that_it_is_not_connected(self, data: Path) -> None:
        """Checked only if it reports its state: not connected, and why."""
        self.needs_outages()
        async with self.running(data) as adapter:
            if adapter.capabilities.reporting is None:
                pytest.skip("the adapter has no capabilities.reporting: it reports no state")
            inbox = asyncio.ensure_future(self.inbox(adapter).next())
            async with self.interrupted():
                state = await self.connection(adapter, up=False, says=True)
                assert state is not None
                assert state.last_error
            state = await self.connection(adapter, up=True, says=True)
            assert state is not None
            assert state.reconnects
            inbox.cancel()

    async def test_deliveries_go_on_after_an_outage(self, data: Path) -> None:
        """Messages published before and after it arrive, through the same `deliveries`."""
        self.needs_outages()
        before, after = self.notifications(2)
        async with self.running(data, self.interest("storm")) as adapter:
            inbox = Inbox(adapter, self.outage)
            await adapter.publish([before])
            assert (await inbox.take(1))[0].notification == before
            waiting = asyncio.create_task(inbox.next())
            async with self.interrupted():
                await self.connection(adapter, up=False)
                assert not waiting.done()
            await self.published(adapter, after)
            delivery = await waiting
            while delivery.notification.id == before.id:  # Its settlement may have been lost.
                assert delivery.redelivered
                delivery.settle()
                delivery = await inbox.next()
            assert delivery.notification == after
            delivery.settle()

    async def test_what_is_wanted_after_an_outage(self, data: Path) -> None:
        """Former interests still hold, and more can be added."""
        self.needs_outages()
        async with self.running(data, self.interest("storm")) as adapter:
            inbox = Inbox(adapter, self.outage)
            waiting = asyncio.create_task(inbox.next())
            async with self.interrupted():
                await self.connection(adapter, up=False)
            storm, calm, last = map(self.notification, ("storm", "calm", "storm"))
            await self.published(adapter, storm)
            assert (await waiting).notification == storm
            (await waiting).settle()
            await adapter.want(self.interest("calm"))
            await adapter.publish([calm])
            await adapter.publish([self.notification("rain"), last])
            assert await inbox.until(calm.id, last.id) == []

    async def test_what_is_unsettled_comes_again_after_an_outage(self, data: Path) -> None:
        """Unsettled messages come in order, before newer ones; settling afterwards works."""
        self.needs_durability()
        self.needs_outages()
        async with self.running(data, self.interest("storm")) as adapter:
            count = min(adapter.capabilities.prefetch, 10)
            sent, last = self.notifications(count), self.notification()
            inbox = Inbox(adapter, self.outage)
            await adapter.publish(sent)
            taken = await inbox.take(count, settle=False)
            waiting = asyncio.create_task(inbox.next())
            async with self.interrupted():
                await self.connection(adapter, up=False)
                taken[0].settle()  # Settling may be lost with the connection.
            await self.published(adapter, last)
            again = await waiting
            again.settle()
            assert again.redelivered
            ids = [again.notification.id, *await inbox.until(last.id)]
            expected = [one.id for one in sent]
            assert ids in (expected, expected[1:])
