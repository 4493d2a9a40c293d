"""Several gateways that share one ActiveMQ: who holds a partition consumes it."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adapters import Adapter, AdapterUnavailable, Sharing, load
from adapters.testing import Inbox
from tests.rigs.activemq import ActiveMQ, activemq, needs_activemq
from tests.rigs.adapters import SECONDS, STORM, published, storm
from tests.rigs.brokers import wire_to

needs_activemq()


@pytest.fixture(scope="module")
def broker() -> ActiveMQ:
    return activemq()


@pytest.fixture
def settings() -> dict[str, str]:
    name = f"test-{uuid.uuid4().hex[:12]}"
    return {"name": name, "root": name}


def power(adapter: Adapter) -> Sharing:
    """The power of *adapter* to be shared."""
    assert adapter.capabilities.sharing is not None
    return adapter.capabilities.sharing


@asynccontextmanager
async def sharing(
    url: str, data: Path, settings: dict[str, str], *partitions: int
) -> AsyncIterator[Adapter]:
    """An adapter that shares the work, and holds *partitions*."""
    adapter = load(url, data=data, settings=settings)
    power(adapter).share()
    assert adapter.capabilities.dialects == ()
    await adapter.start([STORM])
    try:
        for partition in partitions:
            power(adapter).take(partition)
        yield adapter
    finally:
        await adapter.close()


async def test_a_partition_changes_hands(
    broker: ActiveMQ, tmp_path: Path, settings: dict[str, str]
) -> None:
    """What was not settled comes again, in order, to the other; what was is not seen again."""
    async with (
        sharing(broker.url, tmp_path / "a", settings, 0) as one,
        sharing(broker.url, tmp_path / "b", settings) as other,
    ):
        sent = [storm(number) for number in range(10)]
        await other.publish(sent)
        here, there = Inbox(one, SECONDS), Inbox(other, SECONDS)
        first, *rest = await here.take(5, settle=False)
        assert [each.notification for each in [first, *rest]] == sent[:5]
        assert power(one).arrived(first) <= asyncio.get_running_loop().time()
        first.settle()
        rest[1].settle()
        await power(one).release(0)
        rest[0].settle()  # It is not ours any more.
        power(other).take(0)
        taken = await there.take(8)
        assert [each.notification for each in taken] == [sent[1], *sent[3:]]
        await one.publish([last := storm()])
        assert (await there.take(1))[0].notification == last


async def test_a_holder_that_is_not_gone_keeps_it(
    broker: ActiveMQ, tmp_path: Path, settings: dict[str, str]
) -> None:
    async with (
        wire_to(broker.port) as wire,
        sharing(broker.at(wire.port), tmp_path / "a", settings, 0) as one,
    ):
        here = Inbox(one, SECONDS)
        await one.publish([storm()])
        await here.take(1)  # The broker knows who holds it before the other one asks.
        async with sharing(broker.url, tmp_path / "b", settings, 0) as other:
            await other.publish([kept := storm()])
            assert (await here.take(1, settle=False))[0].notification == kept
            await wire.cut()
            assert (await Inbox(other, SECONDS).take(1))[0].notification == kept


async def test_nobody_holds_it(broker: ActiveMQ, tmp_path: Path, settings: dict[str, str]) -> None:
    """The queue is there all the same, for every partition."""
    rows = json.dumps([{"topic": f"VirtualTopic.{settings['name']}-orders.>"}])
    both = {**settings, "destinations": rows}
    async with sharing(broker.url, tmp_path / "a", both) as one:
        assert one.capabilities.partitions == 2
        await one.publish([sent := storm()])
    async with sharing(broker.url, tmp_path / "b", both, 1, 0) as other:
        assert (await Inbox(other, SECONDS).take(1))[0].notification == sent


async def test_a_broker_that_comes_late(
    broker: ActiveMQ, tmp_path: Path, settings: dict[str, str]
) -> None:
    async with wire_to(broker.port) as wire:
        await wire.cut()
        async with sharing(broker.at(wire.port), tmp_path, settings, 0) as adapter:
            with pytest.raises(AdapterUnavailable):
                await adapter.publish([storm()])
            await wire.join()
            await published(adapter, sent := storm())
            assert (await Inbox(adapter, SECONDS).take(1))[0].notification == sent


def test_durable_subscriptions_are_not_shared() -> None:
    rows = {"destinations": '[{"topic": "orders.>"}]'}
    adapter = load("stomp://host", data=Path("nowhere"), settings=rows)
    assert adapter.capabilities.sharing is None
