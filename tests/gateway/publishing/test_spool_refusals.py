"""What the broker will never take is set aside, or told its publisher, and holds up nothing."""

from collections.abc import Iterable

import pytest

from adapters import AdapterFailed, AdapterUnavailable, PublicationRefused
from gateway.publishing.spool import Spool
from gateway.store import spool
from gateway.store.spool import SpoolEntry
from tests.gateway.publishing.test_spool import (
    FakeBroker,
    emptied,
    left,
    message,
    opened,
    publish,
    spooling,
)
from tests.rigs.stores import execute, on_each_store
from tests.rigs.waiting import until

CALM = "{urn:weather}calm"


def ids(numbers: Iterable[int]) -> set[str]:
    return {f"urn:test:{number}" for number in numbers}


async def aside(one: Spool) -> list[SpoolEntry]:
    return await one.listed(True, after=0, limit=99)


@on_each_store
async def test_it_is_set_aside_shown_retried_and_discarded(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = FakeBroker()
    broker.never = ids([2, 4])
    async with opened(store_url) as store, spooling(store, broker) as one:
        await one.publish([message(number) for number in range(1, 6)])
        assert broker.numbers == [1, 3, 5]
        assert (await one.size()).refused == one.set_aside == 2
        first, second = await aside(one)
        assert (first.id, first.refused) == ("urn:test:2", "never\ufffd")
        assert first.refused_at is not None and first.refused_at >= first.since
        assert await one.listed(False, after=0, limit=9) == []
        assert await one.listed(None, after=first.number, limit=9) == [second]
        assert await one.show(first.number) == (first, b"<n>2</n>")
        assert await one.show(second.number + 1) is None

        broker.known = ids([2])
        broker.never = set()
        assert await one.retry([first.number, 999]) == 1
        await left(one, 1, 1)
        assert broker.numbers == [1, 3, 5, 2], "tried, whatever is known against it"
        assert await one.retry([first.number]) == 0
        broker.never = ids([4])
        assert await one.retry(None) == 1
        await until(lambda: one.set_aside == 3)
        await left(one, 1, 1)
        assert await one.discard([999]) == 0
        assert await one.discard(None) == 1
        await emptied(one)
    assert execute(store_url, "SELECT * FROM spool_size") == [(0, 0)]


async def test_what_waits_can_be_discarded_by_number(store_url: str) -> None:
    broker = FakeBroker()
    broker.down = True
    async with opened(store_url) as store, spooling(store, broker) as one:
        await publish(one, [1, 2])
        [first, _] = await one.listed(False, after=0, limit=9)
        assert await one.discard(None) == 0, "all means what is refused"
        assert await one.discard([first.number]) == 1
        broker.down = False
        await emptied(one)
        await publish(one, [3])
        assert broker.numbers == [2, 3]


@pytest.mark.parametrize("bad", [[], [0], [57], [30, 31, 99], list(range(10, 60, 7))])
async def test_bad_ones_that_an_earlier_run_left(store_url: str, bad: list[int]) -> None:
    """All others are published at once, in their order."""
    broker = FakeBroker()
    broker.down = True
    async with opened(store_url) as store:
        async with spooling(store, broker) as one:
            for number in range(100):
                await one.publish([message(number)])
        broker.down, broker.never = False, ids(bad)
        calls = broker.publications
        async with spooling(store, broker) as one:
            await left(one, len(bad), len(bad))
            assert broker.numbers == [number for number in range(100) if number not in bad]
            assert broker.publications - calls < 10, "not one after the other"
            await publish(one, [100])
            assert broker.numbers[-1] == 100


async def test_one_that_cannot_be_read(store_url: str) -> None:
    broker = FakeBroker()
    broker.down = True
    async with opened(store_url) as store:
        async with spooling(store, broker) as one:
            await publish(one, [1, 2, 3])
            await store.submit(
                lambda c: c.exec_driver_sql(
                    "UPDATE spool SET properties = '{' WHERE id = 'urn:test:2'"
                )
            )
        broker.down = False
        async with spooling(store, broker) as one:
            await left(one, 1, 1)
            assert broker.numbers == [1, 3]
            [unreadable] = await aside(one)
            assert str(unreadable.refused).startswith("cannot be read")


async def test_one_that_the_adapter_fails_over(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held against the message when others were published meanwhile, not before."""
    monkeypatch.setattr("gateway.publishing.spool.PASSED_OVER", 0.01)
    monkeypatch.setattr("gateway.publishing.spool.AGAIN", 0.01)

    class Failing(FakeBroker):
        fails = 0

        async def publish(self, notifications):  # type: ignore[no-untyped-def]  # As above.
            if any(one.id in self.broken for one in notifications):
                self.fails += 1
                raise AdapterFailed("the adapter failed: KeyError")
            await super().publish(notifications)

    broker = Failing()
    broker.broken = ids([1])
    async with opened(store_url) as store, spooling(store, broker) as one:
        await publish(one, [1])
        await until(lambda: broker.fails > 10)
        assert await aside(one) == []
        broker.down = True
        await publish(one, [2], "calm")
        broker.down = False
        await left(one, 1, 1)
        assert [entry.id for entry in await aside(one)] == ["urn:test:1"]
        assert broker.numbers == [2]


async def test_without_a_spool_its_publisher_is_told(store_url: str) -> None:
    broker = FakeBroker()
    broker.never = ids([2])
    async with opened(store_url) as store, spooling(store, broker, spools=False) as one:
        with pytest.raises(PublicationRefused) as refused:
            await one.publish([message(number) for number in range(1, 4)])
        assert [each.notification.id for each in refused.value.refusals] == ["urn:test:2"]
        assert broker.numbers == [1, 3]
        assert await aside(one) == []
        await one.publish([message(2)], kept=True)
        assert [entry.id for entry in await aside(one)] == ["urn:test:2"], "nobody to tell"
        broker.down = True
        with pytest.raises(AdapterUnavailable):
            await publish(one, [4])


@pytest.mark.parametrize("spools", [True, False])
@pytest.mark.parametrize("down", [True, False])
async def test_what_is_known_is_refused_at_the_door(
    store_url: str, spools: bool, down: bool
) -> None:
    """The others of the publication are held, in the broker or in the spool."""
    broker = FakeBroker()
    broker.known, broker.down = ids([2]), down
    async with opened(store_url) as store, spooling(store, broker, spools=spools) as one:
        if down and not spools:
            with pytest.raises(AdapterUnavailable):
                await one.publish([message(1), message(2)])
            return
        with pytest.raises(PublicationRefused) as refused:
            await one.publish([message(1), message(2), message(3)])
        assert [each.notification.id for each in refused.value.refusals] == ["urn:test:2"]
        broker.down = False
        await emptied(one)
        assert broker.numbers == [1, 3]
        await one.publish([message(2)], kept=True)
        assert broker.numbers == [1, 3, 2], "for whom nobody waits it is tried"


async def test_rows_that_are_left_where_nothing_is_spooled_any_more(store_url: str) -> None:
    """Other topics go past; those that wait are told to come again while the broker takes nothing,
    and queue behind while it does."""
    broker = FakeBroker()
    broker.down = True
    async with opened(store_url) as store:
        async with spooling(store, broker) as one:
            await publish(one, [1, 2])
            await publish(one, [3], "calm")
        broker.down, broker.away = False, {"calm"}
        async with spooling(store, broker, spools=False) as one:
            await publish(one, [5], "dew")
            await left(one, 1)
            await publish(one, [6])
            await until(lambda: bool(one._failing))  # The broker did not take it.
            with pytest.raises(AdapterUnavailable):
                await publish(one, [4], "calm")
            await publish(one, [7, 8], "dew")
            broker.away = set()
            await emptied(one)
            await publish(one, [9], "calm")
        assert sorted(broker.numbers) == [1, 2, 3, 5, 6, 7, 8, 9]


async def test_what_is_set_aside_takes_half_of_the_room(store_url: str) -> None:
    """The oldest make way: whoever publishes what is refused takes no room from others."""
    broker = FakeBroker()
    broker.never = ids(range(50))
    async with opened(store_url) as store, spooling(store, broker, messages=10) as one:
        await publish(one, range(20))
        assert [entry.id for entry in await aside(one)] == [f"urn:test:{n}" for n in range(15, 20)]
        broker.down = True
        await publish(one, range(60, 65))
        with pytest.raises(AdapterUnavailable, match="full"):
            await publish(one, [65])
        assert await store.submit(spool.waiting) == {"{urn:weather}storm": 5}


async def test_it_is_forgotten_when_it_is_old(store_url: str) -> None:
    broker = FakeBroker()
    broker.never = ids([1])
    async with opened(store_url) as store, spooling(store, broker) as one:
        await publish(one, [1])
        [entry] = await aside(one)
        assert entry.refused_at is not None
        for before, there in ((entry.refused_at, 1), (entry.refused_at + 1, 0)):
            await store.submit(lambda c, before=before: spool.purge(c, before=before))  # type: ignore[misc]
            assert len(await aside(one)) == there
