"""What the broker cannot take waits in the store, in order, within bounds, and each once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from adapters import (
    AdapterError,
    AdapterUnavailable,
    Capabilities,
    PublicationRefused,
    Refusal,
)
from filters import Reason, Step, Topic
from gateway.publishing.spool import Spool
from gateway.settings.settings import SettingsError, read_settings
from gateway.store import Store, StoreUnavailable, spool
from gateway.store.spool import SpoolSize
from mediation.model.messages import Notification
from tests.rigs.stores import execute, on_each_store, outage
from tests.rigs.waiting import until

MOST = 10**6


def message(number: int, topic: str | None = "storm", size: int = 0) -> Notification:
    return Notification(
        id=f"urn:test:{number}",
        source="http://publisher.example/\0",
        payload=f"<n>{number}{' ' * size}</n>".encode(),
        time=datetime.fromtimestamp(number, UTC),
        topic=None if topic is None else Topic((Step("urn:weather", topic),)),
        properties={"severity": str(number)},
    )


class FakeBroker:
    """One that takes messages in memory, once each, but for topics that are ``away``, and for all
    while it is ``down``."""

    def __init__(self) -> None:
        self.taken: list[Notification] = []
        self.down = False
        self.away: set[str] = set()
        self.refused: set[str] = set()
        self.broken: set[str] = set()
        self.never: set[str] = set()
        self.known: set[str] = set()
        """Messages that it refuses for good, and of which that is known beforehand."""
        self.publications = 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=True, refusals=self)

    def refusal_of(self, notification: Notification) -> str | None:
        return "never" if notification.id in self.known else None

    def forget(self, notification: Notification) -> None:
        self.known.discard(notification.id)

    async def publish(self, notifications: Sequence[Notification]) -> None:
        self.publications += 1
        await asyncio.sleep(0)
        ids = {each.id for each in notifications}
        if self.down or self.away & {
            str(each.topic)[len("{urn:weather}") :] for each in notifications
        }:
            raise AdapterUnavailable("away", retry_after=7.0)
        if ids & self.refused:
            raise AdapterError(Reason.MESSAGE_INVALID, "never\0")
        if ids & self.broken:
            raise LookupError("a defect")
        there = {each.id for each in self.taken} | self.never
        self.taken += [each for each in notifications if each.id not in there]
        if refused := [Refusal(each, "never\0") for each in notifications if each.id in self.never]:
            raise PublicationRefused(refused)

    @property
    def numbers(self) -> list[int]:
        return [int(each.id.rpartition(":")[2]) for each in self.taken]


@asynccontextmanager
async def spooling(
    store: Store,
    broker: FakeBroker,
    *,
    messages: int = MOST,
    octets: int = MOST,
    spools: bool = True,
    shared: bool = False,
    drains: Callable[[], bool] = lambda: True,
) -> AsyncIterator[Spool]:
    one = Spool(
        store,
        broker,
        messages=messages,
        octets=octets,
        spools=spools,
        shared=shared,
        drains=drains,
    )
    await one.start()
    task = asyncio.create_task(one.run())
    try:
        yield one
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = Store(url, probe=0.05)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


async def left(one: Spool, messages: int, refused: int = 0) -> None:
    """Wait until so many are left."""

    async def so_many() -> bool:
        size = await one.size()
        return (size.messages, size.refused) == (messages, refused)

    await until(so_many)


async def emptied(one: Spool) -> None:
    await left(one, 0)


async def publish(one: Spool, numbers: Iterable[int], topic: str = "storm") -> None:
    for number in numbers:
        await one.publish([message(number, topic)])


@on_each_store
async def test_what_is_put_comes_out_whole_and_in_order(store_url: str) -> None:
    async with opened(store_url) as store:

        async def put(*those: Notification, octets: int = MOST) -> object:
            return await store.submit(
                lambda c: spool.put(c, those, now=5.0, messages=4, octets=octets)
            )

        storm, calm = "{urn:weather}storm", "{urn:weather}calm"
        assert await store.submit(spool.size) == SpoolSize()
        assert await put(message(3), message(1, "calm"), message(3)) == {storm: 1, calm: 1}
        assert await put(message(1, "calm"), message(2, None)) == {"": 1}
        before = await store.submit(spool.size)
        assert (before.messages, before.since, before.refused) == (3, 5.0, 0)
        assert await put(message(4), message(5)) is None, "more than there may be"
        assert await put(message(4, size=500), octets=before.octets + 500) is None
        assert await store.submit(spool.size) == before
        assert await store.submit(spool.waiting) == {storm: 1, calm: 1, "": 1}
        assert await store.submit(lambda c: spool.waits(c, ["no", ""]))
        assert not await store.submit(lambda c: spool.waits(c, ["no"]))

        found = await store.submit(lambda c: spool.oldest(c, messages=9, octets=MOST))
        assert [each.notification for each in found] == [
            message(3), message(1, "calm"), message(2, None)
        ]  # fmt: skip
        for bounds in ({"messages": 1, "octets": MOST}, {"messages": 9, "octets": 1}):
            first = await store.submit(lambda c, bounds=bounds: spool.oldest(c, **bounds))  # type: ignore[misc]
            assert first == found[:1]
        rest = await store.submit(
            lambda c: spool.oldest(c, messages=9, octets=MOST, without=[storm, ""])
        )
        assert rest == found[1:2]

        await store.submit(lambda c: spool.set_aside(c, found[0].number, "never", now=5.0))
        assert await store.submit(lambda c: spool.oldest(c, messages=9, octets=MOST)) == found[1:]
        assert (await store.submit(spool.size)).refused == 1
        assert not await store.submit(lambda c: spool.waits(c, [storm]))
        assert await store.submit(lambda c: spool.remove(c, found[1:])) == {calm: 1, "": 1}
        assert await store.submit(lambda c: spool.remove(c, found[1:])) == {}
        size = await store.submit(spool.size)
        assert (size.messages, size.octets, size.since) == (1, found[0].octets, None)
        await store.submit(lambda c: spool.purge(c, before=5.0))
        assert (await store.submit(spool.size)).messages == 1
        await store.submit(lambda c: spool.purge(c, before=5.1))
        assert await store.submit(spool.size) == SpoolSize()
    assert execute(store_url, "SELECT * FROM spool") == []
    assert execute(store_url, "SELECT * FROM spool_size") == [(0, 0)]


async def test_an_outage(store_url: str) -> None:
    """Accepted while it lasts, in order afterwards, new ones behind; a restart in between; what a
    publisher repeats waits once."""
    broker = FakeBroker()
    async with opened(store_url) as store:
        async with spooling(store, broker) as one:
            await publish(one, [1])
            assert (broker.numbers, (await one.size()).messages) == ([1], 0)
            broker.down = True
            await publish(one, [2, 3, 3, 2])
            await one.publish([message(4), message(5, "calm")])
            assert (await one.size()).messages == 4
        async with spooling(store, broker) as one:
            calls = broker.publications
            await one.publish([message(6)])
            broker.down = False
            await one.publish([message(7, "calm"), message(8, "dew")])
            await one.publish([message(9, "dew")])
            await emptied(one)
            assert broker.numbers == [*range(1, 10)]
            assert broker.taken[1] == message(2)
            assert broker.publications - calls < 8, "not one after the other"
            await publish(one, [3, 10])
            assert broker.numbers == [*range(1, 11)]


async def test_a_full_spool(store_url: str) -> None:
    broker = FakeBroker()
    broker.down = True
    async with opened(store_url) as store, spooling(store, broker, messages=3) as one:
        await publish(one, [1, 2])
        with pytest.raises(AdapterUnavailable) as full:
            await one.publish([message(3), message(4)])
        assert full.value.retry_after >= 5.0
        await publish(one, [1, 3])
        with pytest.raises(AdapterUnavailable, match="the spool is full"):
            await publish(one, [5])
        broker.down = False
        await emptied(one)
        assert broker.numbers == [1, 2, 3]
        await publish(one, [5])
        assert broker.numbers == [1, 2, 3, 5]


async def test_one_topic_holds_up_no_other(store_url: str) -> None:
    broker = FakeBroker()
    broker.away = {"storm", "calm"}
    async with opened(store_url) as store, spooling(store, broker) as one:
        await publish(one, [1, 2, 3])
        await publish(one, [4], "calm")
        await one.publish([message(5, "calm"), message(6, "dew")])
        await publish(one, [7, 8], "dew")
        await until(lambda: broker.numbers == [6, 7, 8])
        broker.away = set()
        await publish(one, [9], "storm")
        await emptied(one)
        storms = [number for number in broker.numbers if number in (1, 2, 3, 9)]
        assert storms == [1, 2, 3, 9] and sorted(broker.numbers) == [*range(1, 10)]
        assert broker.numbers.index(4) < broker.numbers.index(5)


async def test_what_can_never_be_published(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is set aside, and holds nothing up. A defect of an adapter ends nothing."""
    broker = FakeBroker()
    broker.refused, broker.broken = {"urn:test:2"}, {"urn:test:3"}
    broker.down = True
    async with opened(store_url) as store, spooling(store, broker) as one:
        await publish(one, [1, 2])
        await publish(one, [3], "calm")
        await publish(one, [4])
        broker.down = False
        await until(lambda: broker.numbers == [1, 4])
        await left(one, 2, 1)
        with pytest.raises(AdapterError, match="never"):
            await publish(one, [2])
        broker.broken = set()
        await left(one, 1, 1)
        assert broker.numbers == [1, 4, 3]
        [[why]] = execute(store_url, "SELECT refused FROM spool")
        assert why == "never\ufffd"


async def test_a_publisher_that_gives_up(store_url: str) -> None:
    """Its message waits all the same, and the order of its topic holds."""
    broker = FakeBroker()
    broker.down = True
    async with opened(store_url) as store, spooling(store, broker) as one:
        giving_up = asyncio.create_task(one.publish([message(1)]))
        for _ in range(4):
            await asyncio.sleep(0)
        giving_up.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await giving_up
        await left(one, 1)
        broker.down = False
        await publish(one, [2])
        await emptied(one)
        assert broker.numbers == [1, 2]


@on_each_store
async def test_a_store_that_takes_nothing(store_url: str) -> None:
    broker = FakeBroker()
    broker.down = True
    async with opened(store_url) as store, spooling(store, broker) as one:
        await publish(one, [1])
        with outage(store_url), pytest.raises(StoreUnavailable):
            await publish(one, [2])
        broker.down = False
        await emptied(one)
        async with asyncio.timeout(60):
            while broker.numbers != [1, 3]:
                with contextlib.suppress(StoreUnavailable):
                    await publish(one, [3])
        assert broker.numbers == [1, 3]


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
async def test_several_gateways(store_url: str) -> None:
    """While a message of a topic waits, those that come to another gateway queue behind it; one
    gateway alone publishes them; bounds are common."""
    ours, theirs = FakeBroker(), FakeBroker()
    ours.down = True
    theirs.taken = ours.taken
    house = False
    async with (
        opened(store_url) as first,
        opened(store_url) as second,
        spooling(first, ours, shared=True, drains=lambda: False, messages=4) as a,
        spooling(second, theirs, shared=True, drains=lambda: house, messages=4) as b,
    ):
        await publish(a, [1])
        await publish(b, [2])
        await publish(b, [3], "calm")
        assert ours.numbers == [3], "another topic is not held up"
        await publish(a, [4])
        await asyncio.gather(*(publish(one, [5]) for one in (a, b)))
        assert (await a.size()) == (await b.size()) != SpoolSize()
        assert (await a.size()).messages == 4
        for one in (a, b):
            with pytest.raises(AdapterUnavailable):
                await publish(one, [6])
        house = True
        await emptied(a)
        assert ours.numbers == [3, 1, 2, 4, 5]
        ours.down = False
        await publish(a, [6])
        assert ours.numbers == [3, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("adapter", ["embedded:", "memory:", "EMBEDDED:?prefetch=3"])
def test_where_it_is_of_no_use(adapter: str) -> None:
    with pytest.raises(SettingsError, match="a spool is for a broker"):
        read_settings(adapter=adapter, spool=True)
    assert not read_settings(adapter=adapter).spool
    assert read_settings(adapter="amqp://host/", spool=True).spool
