"""The contract of an adapter: what is settled, and what is not, over restarts too."""

from dataclasses import replace
from pathlib import Path

from adapters.testing.trials import AdapterTrials
from mediation.model.messages import Attachment


class SettlementContract(AdapterTrials):
    """The contract of settlement: what is not settled comes again, and is bounded; what is settled
    does not."""

    async def test_no_more_than_the_prefetch_is_unsettled(self, data: Path) -> None:
        async with self.running(data, self.interest("storm")) as adapter:
            await self.assert_bounded(adapter, self.inbox(adapter))

    async def test_what_is_unsettled_comes_once(self, data: Path) -> None:
        async with self.running(data, self.interest("storm")) as adapter:
            count = min(adapter.capabilities.prefetch - 1, 10)
            sent, last = self.notifications(count), self.notification()
            inbox = self.inbox(adapter)
            await adapter.publish(sent)
            await inbox.take(count, settle=False)
            await adapter.want(self.interest("calm"))
            await adapter.publish([last])
            assert (await inbox.next()).notification == last

    async def test_settling_in_any_order_and_twice(self, data: Path) -> None:
        async with self.running(data, self.interest("storm")) as adapter:
            window = adapter.capabilities.prefetch
            inbox = self.inbox(adapter)
            for _ in range(2):
                count = min(window, 20)
                sent = self.notifications(count)
                await adapter.publish(sent)
                taken = await inbox.take(count, settle=False)
                assert [delivery.notification for delivery in taken] == sent
                for delivery in [*reversed(taken), *taken]:
                    delivery.settle()
            await self.assert_bounded(adapter, inbox)

    async def test_what_is_settled_does_not_come_again(self, data: Path) -> None:
        self.needs_durability()
        sent = self.notifications(20)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent)
            await self.inbox(adapter).take(20)
        async with self.running(data, self.interest("storm")) as adapter:
            last = self.notification()
            await adapter.publish([last])
            assert await self.inbox(adapter).until(last.id) == []

    async def test_what_is_not_settled_comes_again_in_order(self, data: Path) -> None:
        self.needs_durability()
        sent = self.notifications(20)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent)
            for n, delivery in enumerate(await self.inbox(adapter).take(10, settle=False)):
                if n % 2:
                    delivery.settle()
        async with self.running(data, self.interest("storm")) as adapter:
            last = self.notification()
            await adapter.publish([last])
            again = await self.inbox(adapter).take(16)
            assert [delivery.notification for delivery in again] == [
                *sent[:10:2],
                *sent[10:],
                last,
            ]
            assert all(delivery.redelivered for delivery in again[:5])
            assert not again[-1].redelivered

    async def test_what_was_published_before_a_restart_arrives_after_it(self, data: Path) -> None:
        self.needs_durability()
        first, *others = self.notifications(200)
        map_ = Attachment("cid:map@station.example", "image/png", bytes(range(256)))
        sent = [replace(first, attachments=(map_,)), *others]
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent)
        async with self.running(data, self.interest("storm")) as adapter:
            taken = await self.inbox(adapter).take(200)
            assert [delivery.notification for delivery in taken] == sent

    async def test_interests_of_an_earlier_run_are_gone(self, data: Path) -> None:
        async with self.running(data, self.interest("storm"), self.interest("calm")):
            pass
        async with self.running(data, self.interest("storm")) as adapter:
            calm, last = self.notification("calm"), self.notification("storm")
            await adapter.publish([calm, last])
            assert await self.inbox(adapter).until(last.id) == []

    async def test_what_only_an_earlier_run_wanted_is_not_yielded(self, data: Path) -> None:
        async with self.running(data, self.interest("storm"), self.interest("calm")) as adapter:
            await adapter.publish([self.notification("calm"), self.notification("calm")])
            await self.inbox(adapter).take(1, settle=False)
        async with self.running(data, self.interest("storm")) as adapter:
            last = self.notification("storm")
            await adapter.publish([last])
            assert await self.inbox(adapter).until(last.id) == []
