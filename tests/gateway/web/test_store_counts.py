"""How often the store is counted for the metrics."""

import asyncio

import pytest

from gateway.delivery import Conservation
from gateway.store import Totals
from gateway.store.spool import SpoolSize
from gateway.store.totals import Letters
from gateway.web import store_counts
from gateway.web.store_counts import Counting, Counts
from tests.rigs.waiting import until


class Counter:
    """Counts how often it counts, and as slowly as it is let."""

    def __init__(self, boxes: int) -> None:
        self.asked = 0
        self.go = asyncio.Event()
        self.go.set()
        self._boxes = boxes

    async def __call__(self) -> Counts:
        self.asked += 1
        await self.go.wait()
        return Counts(
            Conservation(Totals(), 0, self.asked, Letters()), SpoolSize(), (self._boxes, 0, 0)
        )


async def test_few_are_counted_whenever_somebody_asks() -> None:
    counter = Counter(boxes=store_counts.FEW - 1)
    counts = Counting(counter, subscriptions=lambda: 1)
    assert [(await counts.counts()).conservation.in_flight for _ in range(3)] == [1, 2, 3]


async def test_many_are_counted_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_counts, "KEPT", 1.0)
    counter = Counter(boxes=store_counts.FEW)
    counter.go.clear()
    counts = Counting(counter, subscriptions=lambda: 1)
    asking = [asyncio.create_task(counts.counts()) for _ in range(10)]
    await until(lambda: counter.asked)
    counter.go.set()
    assert {(await one).conservation.in_flight for one in asking} == {1}


async def test_many_are_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_counts, "KEPT", 0.0)
    counts = Counting(Counter(boxes=store_counts.FEW), subscriptions=lambda: 1)
    assert [(await counts.counts()).conservation.in_flight for _ in range(2)] == [1, 2]


async def test_who_gives_up_does_not_end_the_counting() -> None:
    """However long it takes, one who asks again and again has it in the end."""
    counter = Counter(boxes=1)
    counts = Counting(counter, subscriptions=lambda: 1)
    for asked in (1, 2):
        counter.go.clear()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(counts.counts(), 0.01)
        assert counter.asked == asked
        counter.go.set()
        assert counts._counting is not None
        await asyncio.wait([counts._counting])
        assert (await counts.counts()).conservation.in_flight == asked
    assert (await counts.counts()).conservation.in_flight == 3, "once"


async def test_what_nobody_waited_for_gets_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_counts, "UNREAD", 0.0)
    counter = Counter(boxes=1)
    counter.go.clear()
    counts = Counting(counter, subscriptions=lambda: 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(counts.counts(), 0.01)
    counter.go.set()
    assert counts._counting is not None
    await asyncio.wait([counts._counting])
    assert (await counts.counts()).conservation.in_flight == 2


async def test_who_gives_up_holds_up_nobody() -> None:
    counter = Counter(boxes=1)
    counter.go.clear()
    counts = Counting(counter, subscriptions=lambda: 1)
    others = asyncio.create_task(counts.counts())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(counts.counts(), 0.01)
    counter.go.set()
    assert (await others).conservation.in_flight == 1
