"""The contract of an adapter: order, whoever publishes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from adapters.protocol import (
    Adapter,
)
from adapters.testing.trials import AdapterTrials
from mediation.model.messages import Notification


class OrderContract(AdapterTrials):
    """Messages keep their order, whoever publishes."""

    async def test_messages_keep_their_order(self, data: Path) -> None:
        sent = self.notifications(300)
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish(sent[:100])
            for notification in sent[100:200]:
                await adapter.publish([notification])
            await adapter.publish(sent[200:])
            taken = await self.inbox(adapter).take(len(sent))
            assert [delivery.notification.id for delivery in taken] == [n.id for n in sent]

    async def test_each_topic_keeps_its_order(self, data: Path) -> None:
        paths = [f"storm/n{number}" for number in range(8)]
        sent = [self.notification(path) for _ in range(20) for path in paths]
        async with self.running(data, self.interest("storm/*")) as adapter:
            await adapter.publish(sent[:100])
            await adapter.publish(sent[100:])
            taken = await self.inbox(adapter).take(len(sent))
            ids = [delivery.notification.id for delivery in taken]
            self.assert_yielded(ids, [notification.id for notification in sent])
            for path in paths:
                own = [one.id for one in sent if one.topic == self.topic(path)]
                assert [id for id in ids if id in own] == own

    async def test_publishers_do_not_disturb_each_other(self, data: Path) -> None:
        sent = [self.notifications(20) for _ in range(16)]

        async def publish(adapter: Adapter, notifications: Sequence[Notification]) -> None:
            for notification in notifications:
                await adapter.publish([notification])

        async with self.running(data, self.interest("storm")) as adapter:
            async with asyncio.TaskGroup() as group:
                for notifications in sent:
                    group.create_task(publish(adapter, notifications))
                taking = group.create_task(self.inbox(adapter).take(16 * 20))
            ids = [delivery.notification.id for delivery in taking.result()]
            for notifications in sent:
                own = {notification.id for notification in notifications}
                assert [id for id in ids if id in own] == [n.id for n in notifications]

    async def test_a_publisher_that_gives_up_disturbs_nobody(self, data: Path) -> None:
        given_up, last = self.notifications(2)
        async with self.running(data, self.interest("storm")) as adapter:
            task = asyncio.create_task(adapter.publish([given_up]))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await adapter.publish([last])
            assert await self.inbox(adapter).until(last.id) in ([], [given_up.id])
