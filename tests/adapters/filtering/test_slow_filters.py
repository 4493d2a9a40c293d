"""Filters that may be expensive, beside those that are not."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from adapters import Matched, XPathFilterAdapter
from adapters.filtering import slow_filters
from adapters.filtering.slow_filters import COOL_DOWN, TURNS, SlowFilters
from adapters.memory import MemoryAdapter
from filters import PAYLOAD, Deferred, Expression, Filter, Matching, Worker, evaluate_questions
from mediation.model.messages import Notification
from tests.rigs.waiting import until

HOSTILE = "//*[../*[../*[../*]]]"
HONEST = "count(//b | //text()) > 2 and //b[. = 'last'] or /small"
NEVER = "count(//b | //text()) = 1"
"""The bound of both is large, for node-sets are merged; the answer comes soon."""
LARGE = f"<a>{'<b>x</b>' * 8000}<b>last</b></a>"
MIDDLING = f"<a>{'<b>x</b>' * 2000}<b>last</b></a>"
SMALL = "<small/>"
DEADLINE = 60.0


def notification(payload: str) -> Notification:
    return Notification(str(uuid.uuid4()), "urn:me", payload.encode(), datetime.now(UTC))


def content(text: str) -> Filter:
    return Filter(contents=(Expression(text),))


@dataclass
class FakeDelivery:
    """A delivery that remembers whether it was settled."""

    notification: Notification
    settled: int = 0
    partition: int = 3
    redelivered: bool = True

    def settle(self) -> None:
        self.settled += 1


class Taker:
    """Takes what the adapter yields, settles it, and keeps it."""

    def __init__(self, adapter: XPathFilterAdapter, settled: list[Notification]) -> None:
        self._adapter = adapter
        self.settled = settled
        self.taken: list[Matched] = []
        self._changed = asyncio.Event()

    async def run(self) -> None:
        async for matched in self._adapter.deliveries():
            self.taken.append(matched)
            matched.delivery.settle()
            self._changed.set()

    async def until(self, number: int) -> list[Matched]:
        async with asyncio.timeout(DEADLINE):
            while len(self.taken) < number:
                self._changed.clear()
                await self._changed.wait()
        return self.taken

    def of(self, key: str) -> list[str]:
        """What *key* was given, in order; with a question mark, without a verdict."""
        found = []
        for matched in self.taken:
            payload = matched.delivery.notification.payload.decode()
            found += [payload] * list(matched.keys).count(key)
            found += [f"{payload}?"] * list(matched.over_budget).count(key)
        return found


@dataclass
class Clock:
    """That of `adapters.filtering.slow_filters`; it stands still."""

    now: float = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(slow_filters, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def judgements(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many messages were judged by the process that evaluates."""
    judged = []

    def counting(worker: Worker, questions: Sequence[Any]) -> list[bool | None]:
        judged.append(questions)
        return evaluate_questions(worker, questions)

    monkeypatch.setattr(slow_filters, "evaluate_questions", counting)
    return lambda: len(judged)


@asynccontextmanager
async def running(**filters: str) -> AsyncIterator[tuple[XPathFilterAdapter, Taker]]:
    settled: list[Notification] = []
    adapter = XPathFilterAdapter(MemoryAdapter(prefetch=64), settled=settled.append)
    assert await adapter.start({key: content(text) for key, text in filters.items()}) == {}
    taker = Taker(adapter, settled)
    task = asyncio.create_task(taker.run())
    try:
        yield adapter, taker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await adapter.close()


async def test_the_decided_do_not_wait() -> None:
    async with running(cheap="/a", honest=HONEST, no=NEVER) as (adapter, taker):
        await adapter.publish([notification(MIDDLING)])
        first, second = await taker.until(2)
        assert (first.keys, second.keys) == (["cheap"], ["honest"])
        assert first.delivery.notification is second.delivery.notification


async def test_one_over_budget_is_named() -> None:
    async with running(cheap="/a", hostile=HOSTILE, honest=HONEST) as (adapter, taker):
        await adapter.publish([notification(LARGE)])
        first, second = await taker.until(2)
        assert first.keys == ["cheap"]
        assert "hostile" in second.over_budget
        assert not second.unevaluated


async def test_the_order_of_a_subscription_holds() -> None:
    sent = [MIDDLING, SMALL, SMALL, MIDDLING, SMALL]
    async with running(all="true()", honest=HONEST) as (adapter, taker):
        await adapter.publish([notification(payload) for payload in sent])
        await taker.until(10)
        assert taker.of("honest") == taker.of("all") == sent
        # Those for whom all was decided had everything before.
        assert [list(matched.keys) for matched in taker.taken[:5]] == [["all"]] * 5
        await adapter.publish([notification(SMALL)])
        assert sorted((await taker.until(11))[-1].keys) == ["all", "honest"]


async def test_an_offender_is_not_evaluated_again_at_once(
    clock: Clock, judgements: Callable[[], int]
) -> None:
    async with running(hostile=HOSTILE, small="/small") as (adapter, taker):
        await adapter.publish([notification(LARGE) for _ in range(30)])
        await taker.until(30)
        assert judgements() == 1
        assert taker.of("hostile") == [f"{LARGE}?"] * 30


async def test_an_offender_is_evaluated_again_later(clock: Clock) -> None:
    async with running(hostile=f"{HOSTILE} or /small") as (adapter, taker):
        await adapter.publish([notification(LARGE), notification(SMALL)])
        await taker.until(2)
        assert taker.of("hostile") == [f"{LARGE}?", SMALL]
        clock.now += COOL_DOWN
        await adapter.publish([notification(MIDDLING), notification(SMALL)])
        await taker.until(4)
        assert taker.of("hostile")[-1] == SMALL


async def test_what_turns_out_to_match_nobody_is_settled() -> None:
    """More than the prefetch of it would stop an adapter that it is not settled for."""
    async with running(no=NEVER, small="/small") as (adapter, taker):
        for number in range(1, 6):
            sent = [notification(MIDDLING) for _ in range(20)]
            await adapter.publish([*sent, notification(SMALL)])
            await until(lambda total=21 * number: len(taker.settled) == total)  # type: ignore[misc]
        assert [list(matched.keys) for matched in taker.taken] == [["small"]] * 5


async def test_the_event_loop_is_free_meanwhile() -> None:
    filters = {f"hostile{n}": f"{HOSTILE} and {n}" for n in range(1, 21)}
    async with running(**filters) as (adapter, taker):
        turns = 0
        await adapter.publish([notification(LARGE)])
        while not taker.taken:
            await asyncio.sleep(0)
            turns += 1
        # A quarter of a second at least. A loop that waits for it turns a few times.
        assert turns > 1000
        assert len(taker.taken[0].over_budget) == 20


async def test_a_subscription_that_has_ended_is_not_evaluated() -> None:
    async with running(hostile=HOSTILE, other=f"{HOSTILE} and 1", small="/small") as (
        adapter,
        taker,
    ):
        await adapter.publish([notification(LARGE) for _ in range(20)])
        await adapter.remove("hostile")
        await adapter.remove("other")
        await adapter.publish([notification(SMALL)])
        await taker.until(1)
        assert taker.taken[0].keys == ["small"]


def matching(*keys: str, deferred: dict[str, str]) -> Matching[str]:
    documents = {PAYLOAD: MIDDLING.encode()}
    return Matching(
        list(keys),
        [Deferred((Expression(text),), documents, [key]) for key, text in deferred.items()],
    )


async def everything(slow_filters: SlowFilters) -> list[Matched]:
    """All that comes until it is idle."""
    found = []
    async with asyncio.timeout(DEADLINE):
        while not slow_filters.idle:
            while (matched := slow_filters.take_evaluated()) is not None:
                found.append(matched)
            if not slow_filters.idle:
                await slow_filters.evaluated()
    return found


async def test_a_message_is_settled_when_both_parts_are() -> None:
    slow_filters = SlowFilters(lambda _: True)
    delivery = FakeDelivery(notification(MIDDLING))
    first = slow_filters.queue_slow(delivery, matching("a", deferred={"b": HONEST}))
    [second] = await everything(slow_filters)
    assert first is not None
    for part in (first.delivery, second.delivery):
        assert part.notification is delivery.notification
        assert (part.partition, part.redelivered) == (3, True)
    second.delivery.settle()
    second.delivery.settle()
    assert delivery.settled == 0
    first.delivery.settle()
    assert delivery.settled == 1
    await slow_filters.close()


async def test_where_too_many_wait_nobody_is_blamed() -> None:
    slow_filters = SlowFilters(lambda _: True, most=2)
    deliveries = [FakeDelivery(notification(MIDDLING)) for _ in range(4)]
    at_once = [
        slow_filters.queue_slow(delivery, matching("a", deferred={f"b{n}": HONEST}))
        for n, delivery in enumerate(deliveries)
    ]
    assert [list(one.unevaluated) for one in at_once if one] == [[], [], ["b2"], ["b3"]]
    assert all(one is not None and one.keys == ["a"] and not one.over_budget for one in at_once)
    assert [one.keys for one in await everything(slow_filters)] == [["b0"], ["b1"]]
    await slow_filters.close()


async def test_closing_leaves_the_rest_unsettled() -> None:
    slow_filters = SlowFilters(lambda _: True)
    deliveries = [FakeDelivery(notification(MIDDLING)) for _ in range(5)]
    for delivery in deliveries:
        assert slow_filters.queue_slow(delivery, matching(deferred={"b": HONEST})) is None
    await asyncio.sleep(0)
    async with asyncio.timeout(DEADLINE):
        await slow_filters.close()
    assert not any(delivery.settled for delivery in deliveries)


# Whose filters cost what.


def shared(key: str) -> str:
    """The share of keys in these tests is what stands before the number."""
    return key.rstrip("0123456789")


async def test_who_takes_much_waits_behind_who_takes_little() -> None:
    slow_filters = SlowFilters(lambda _: True, shared)
    for number in range(10):
        asked = {f"hostile{number}": f"{HOSTILE} and {number}"}
        assert (
            slow_filters.queue_slow(FakeDelivery(notification(MIDDLING)), matching(deferred=asked))
            is None
        )
    for number in range(5):
        asked = {f"honest{number}": HONEST}
        assert (
            slow_filters.queue_slow(FakeDelivery(notification(MIDDLING)), matching(deferred=asked))
            is None
        )
    found = await everything(slow_filters)
    keys = [*(key for one in found for key in (*one.keys, *one.over_budget))]
    assert len(keys) == 15
    # The first of the hostile ones was under way; all others took more than the honest together.
    assert keys.index("honest4") <= 6
    assert [key for key in keys if key.startswith("hostile")] == [f"hostile{n}" for n in range(10)]
    await slow_filters.close()


async def test_a_share_has_its_part_of_what_may_wait() -> None:
    """Who asks for much is not evaluated beyond it; who asks for little always is."""
    slow_filters = SlowFilters(lambda _: True, shared, most=16)
    unevaluated: list[str] = []
    honest = 0
    for number in range(60):
        asked = {f"hostile{number}": f"{HOSTILE} and {number}"}
        if number % 10 == 0:
            asked[f"honest{number}"] = HONEST
            honest += 1
        matched = slow_filters.queue_slow(
            FakeDelivery(notification(MIDDLING)), matching("a", deferred=asked)
        )
        assert matched is not None
        unevaluated += matched.unevaluated
    assert {shared(key) for key in unevaluated} == {"hostile"}
    assert len(unevaluated) >= 60 - 16
    found = await everything(slow_filters)
    assert sum(shared(key) == "honest" for one in found for key in one.keys) == honest
    assert not any(one.unevaluated for one in found)
    await slow_filters.close()


async def test_one_filter_of_two_shares_is_evaluated_for_both() -> None:
    slow_filters = SlowFilters(lambda _: True, shared)
    delivery = FakeDelivery(notification(MIDDLING))
    both = Matching(
        [], [Deferred((Expression(HONEST),), {PAYLOAD: MIDDLING.encode()}, ["x1", "y1", "x2"])]
    )
    assert slow_filters.queue_slow(delivery, both) is None
    found = await everything(slow_filters)
    assert [list(one.keys) for one in found] == [["x1", "x2"], ["y1"]]
    for one in found:
        assert delivery.settled == 0
        one.delivery.settle()
    assert delivery.settled == 1
    await slow_filters.close()


async def test_what_stands_behind_a_full_queue_does_not_wait_for_ever() -> None:
    """Else one filter that is dear on some messages would keep all others unsettled."""
    slow_filters = SlowFilters(lambda _: True, shared, most=3)
    for _ in range(3):
        asked = {"hostile1": HOSTILE}
        assert (
            slow_filters.queue_slow(FakeDelivery(notification(MIDDLING)), matching(deferred=asked))
            is None
        )
    matched = slow_filters.queue_slow(
        FakeDelivery(notification(SMALL)), matching("a1", "hostile1", deferred={})
    )
    assert matched is not None
    assert (list(matched.keys), list(matched.unevaluated)) == (["a1"], ["hostile1"])
    await slow_filters.close()


async def test_questions_have_their_turn() -> None:
    slow_filters = SlowFilters(lambda _: True, shared)
    documents = {PAYLOAD: MIDDLING.encode()}
    asked = [((Expression(text),), documents) for text in (HONEST, NEVER, HOSTILE)]
    evaluated = await asyncio.wait_for(slow_filters.evaluate("somebody", asked), DEADLINE)
    assert evaluated is not None
    assert evaluated.verdicts[:2] == [True, False]
    assert evaluated.seconds > 0
    assert slow_filters.idle
    await slow_filters.close()


async def test_many_shares_of_one_filter_leave_turns_to_others() -> None:
    """What the first share learnt, the others need not wait for: nor may all else wait for them."""
    slow_filters = SlowFilters(lambda _: True, lambda key: key)
    keys = [f"key{number}" for number in range(20 * TURNS)]
    all_of_them = Matching([], [Deferred((Expression(HONEST),), {PAYLOAD: b"<m/>"}, keys)])
    assert slow_filters.queue_slow(FakeDelivery(notification(SMALL)), all_of_them) is None
    seen = set[int]()
    async with asyncio.timeout(DEADLINE):
        while len(slow_filters) < len(keys):
            seen.add(len(slow_filters))
            await asyncio.sleep(0)
    assert len(seen) >= 20
    await slow_filters.close()


async def test_who_asks_while_it_closes_is_told_nothing() -> None:
    """No cancellation in somebody else's task, and no evaluation by what is closed."""
    slow_filters = SlowFilters(lambda _: True, shared)
    question = (Expression(HOSTILE),), {PAYLOAD: MIDDLING.encode()}
    waiting = [asyncio.create_task(slow_filters.evaluate("x", [question])) for _ in range(3)]
    await asyncio.sleep(0)
    await slow_filters.close()
    assert await asyncio.gather(*waiting) == [None, None, None]
    assert await slow_filters.evaluate("x", [question]) is None
