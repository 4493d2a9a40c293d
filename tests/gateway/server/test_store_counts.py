"""How often the store is counted for the metrics."""

import asyncio

import pytest

from gateway.delivery import Conservation
from gateway.server import store_counts
from gateway.server.store_counts import Counting, Counts
from gateway.store import Totals
from gateway.store.totals import Letters
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
        return Counts(Conservation(Totals(), 0, self.asked, Letters()), None, (self._boxes, 0, 0))


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


async def test_who_gives_up_holds_up_nobody() -> None:
    counter = Counter(boxes=1)
    counter.go.clear()
    counts = Counting(counter, subscriptions=lambda: 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(counts.counts(), 0.01)
    counter.go.set()
    assert (await counts.counts()).conservation.in_flight == 2
