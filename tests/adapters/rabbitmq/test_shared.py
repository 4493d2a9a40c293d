"""Two adapters that share the queues of a real RabbitMQ."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from adapters.broker.prefetch import PrefetchedDelivery
from adapters.protocol import EVERYTHING_WANTED
from adapters.rabbitmq import RabbitMQAdapter
from mediation.model.messages import Notification
from tests.rigs.brokers import RabbitMQ, needs_rabbitmq, rabbitmq, wire_to
from tests.rigs.waiting import until

needs_rabbitmq()

SECONDS = 20.0
PARTITIONS = 16


class Sharer:
    """An adapter, and what it has yielded."""

    def __init__(self, url: str) -> None:
        self.adapter = RabbitMQAdapter.from_url(url, data=Path(), settings={})
        self.adapter.share()
        self.yielded: asyncio.Queue[PrefetchedDelivery] = asyncio.Queue()

    async def read(self) -> None:
        async for delivery in self.adapter.deliveries():
            self.yielded.put_nowait(delivery)

    async def next(self) -> PrefetchedDelivery:
        return await asyncio.wait_for(self.yielded.get(), SECONDS)

    async def publish(self, *numbers: int) -> None:
        await self.adapter.publish(
            [
                Notification(f"urn:{number}", "urn:p", b"<a>%d</a>" % number, datetime.now(UTC))
                for number in numbers
            ]
        )


async def sharer(stack: AsyncExitStack, url: str) -> Sharer:
    one = Sharer(url)
    await one.adapter.start([EVERYTHING_WANTED])
    stack.push_async_callback(one.adapter.close)
    reading = asyncio.create_task(one.read())
    stack.callback(reading.cancel)
    return one


@pytest.fixture(scope="module")
def broker() -> RabbitMQ:
    return rabbitmq()


@pytest.fixture
def query() -> str:
    name = f"shared-{uuid.uuid4().hex[:8]}"
    return f"?name={name}&exchange={name}&heartbeat=2"


@pytest_asyncio.fixture
async def both(broker: RabbitMQ, query: str) -> AsyncIterator[tuple[Sharer, Sharer]]:
    async with AsyncExitStack() as stack:
        yield await sharer(stack, broker.url + query), await sharer(stack, broker.url + query)


def take_all(one: Sharer) -> None:
    for partition in range(PARTITIONS):
        one.adapter.take(partition)


async def release_all(one: Sharer) -> None:
    await asyncio.gather(*(one.adapter.release(partition) for partition in range(PARTITIONS)))


async def test_one_at_a_time_in_order(both: tuple[Sharer, Sharer]) -> None:
    """What is not taken waits; what is released unsettled goes, in its order, to whoever takes it
    next, and to nobody before."""
    first, second = both
    await second.publish(1, 2, 3)
    take_all(first)
    one, two = await first.next(), await first.next()
    assert (one.notification.id, two.notification.id) == ("urn:1", "urn:2")
    assert not one.redelivered and one.arrived <= asyncio.get_running_loop().time()
    take_all(second)
    one.settle()
    await asyncio.sleep(0.6)  # Nothing tells that a broker will not deliver.
    assert second.yielded.empty(), "two consume the same partition"
    await release_all(first)
    two.settle()  # Too late: it has nothing to say any more.
    await second.publish(4)
    those = [await second.next() for _ in range(3)]
    assert [each.notification.id for each in those] == ["urn:2", "urn:3", "urn:4"]
    assert those[0].redelivered and those[0].partition == two.partition
    for each in those:
        each.settle()


async def test_interests_are_common(both: tuple[Sharer, Sharer]) -> None:
    """What one has no use for any more, the other still gets."""
    first, second = both
    take_all(second)
    await first.adapter.unwant(EVERYTHING_WANTED)
    await first.publish(1)
    assert (await second.next()).notification.id == "urn:1"


async def test_a_silent_gateway(broker: RabbitMQ, query: str) -> None:
    """The broker lets go of what it consumes, and the other one has it, soon."""
    async with wire_to(broker.port) as wire, AsyncExitStack() as stack:
        silent = await sharer(stack, broker.at(wire.port) + query)
        other = await sharer(stack, broker.url + query)
        take_all(silent)
        await other.publish(1)
        delivery = await silent.next()
        wire.fall_silent()
        take_all(other)
        again = await other.next()
        assert again.notification.id == delivery.notification.id and again.redelivered
        again.settle()
        delivery.settle()


async def test_adopting_while_there_is_no_connection(broker: RabbitMQ, query: str) -> None:
    async with wire_to(broker.port) as wire, AsyncExitStack() as stack:
        one = Sharer(broker.at(wire.port) + query)
        await one.adapter.start([])
        stack.push_async_callback(one.adapter.close)
        stack.callback(asyncio.create_task(one.read()).cancel)
        take_all(one)
        await wire.cut()
        await one.adapter.adopt(EVERYTHING_WANTED)
        await wire.join()
        other = await sharer(stack, broker.url + query)
        await until(lambda: one.adapter._consuming._changes.through is not None, SECONDS)
        await other.publish(1)
        assert (await one.next()).notification.id == "urn:1"
